//! Records and questions between nodes that do not know each other.
