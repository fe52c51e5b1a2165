//! Arrays that come and go in pieces: a kernel takes as long to map or to free memory as to fill it.

use super::Error;

/// Bytes that are freed at once. 1 MiB takes 0.1 ms, 40 MiB take 2.2 ms.
const PIECE: usize = 1 << 20;

/// An empty array with room for `len`. Its pages come as they are filled, so that no later growth copies it and no
/// step pays for all of them.
pub(super) fn reserve<T>(len: usize, what: &'static str, triangles: u32) -> Result<Vec<T>, Error> {
    let mut array = Vec::new();
    let bytes = (len * size_of::<T>()) as u64;
    array.try_reserve_exact(len).map_err(|_| Error::Memory { what, bytes, triangles: triangles.into() })?;
    Ok(array)
}

/// Cuts an array to `len` items, and gives back what it holds beyond a piece. Large blocks shrink in place in the
/// allocators of the systems that Vulkan runs on.
pub(super) fn shrink<T: Copy>(array: &mut Vec<T>, len: usize) {
    array.truncate(len);
    if (array.capacity() - array.len()) * size_of::<T>() >= PIECE || array.is_empty() {
        array.shrink_to_fit();
    }
}

/// Frees the end of an array; true once all of it is gone.
pub(super) fn free_piece<T: Copy>(array: &mut Vec<T>) -> bool {
    shrink(array, array.len().saturating_sub(PIECE / size_of::<T>()));
    array.capacity() == 0
}
