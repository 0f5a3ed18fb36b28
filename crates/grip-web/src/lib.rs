//! All that serves HTTP: git routes, websocket, NIP-11, JSON API, pages.
