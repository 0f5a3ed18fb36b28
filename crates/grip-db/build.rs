//! Tells cargo that the migrations are part of this crate: they are compiled in by a macro, which
//! cannot say so itself.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations");
}
