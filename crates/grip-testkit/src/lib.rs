//! What tests share: node processes, a scripted relay client, git repositories, event builders.
