//! Pages in a real browser.

mod gallery;
mod hostile;
mod scene;
mod visits;
