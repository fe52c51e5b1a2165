// A shader that does not compile: the scripts look at how that is told.
@compute @workgroup_size(1)
fn main() {
    data[0] = missing;
}
