const LOCAL = 0.0;
