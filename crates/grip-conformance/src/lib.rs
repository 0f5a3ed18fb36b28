//! GRASP-01 as black-box cases that run against any server.
