//! SQL statements of pins, audit and idempotency keys.

grip_db::statements! {
    pub(crate) mod sql {
        MANIFESTS = "SELECT id, manifest FROM resolve_pins ORDER BY pinned_at, id";
        MANIFESTS_OF_ID = "SELECT id, manifest FROM resolve_pins WHERE id = $1";
        MANIFESTS_OF_NAME = "SELECT id, manifest FROM resolve_pins WHERE name = $1 \
                             ORDER BY pinned_at, id";
        PINS = "SELECT id, name, pinned_by, pinned_at FROM resolve_pins ORDER BY name, id";
        PIN = "INSERT INTO resolve_pins (id, name, manifest, pinned_by, pinned_at) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        UNPIN_ID = "DELETE FROM resolve_pins WHERE id = $1";
        UNPIN_NAME = "DELETE FROM resolve_pins WHERE name = $1";
        FIND_ORDER = "SELECT action, subject, outcome FROM resolve_orders \
                      WHERE actor = $1 AND idempotency_key = $2";
        TAKE_ORDER = "INSERT INTO resolve_orders \
                          (actor, idempotency_key, action, subject, outcome, at) \
                      VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
        FORGET_ORDERS = "DELETE FROM resolve_orders WHERE at < $1";
        AUDIT = "INSERT INTO resolve_audit (at, actor, action, subject, outcome, correlation) \
                 VALUES ($1, $2, $3, $4, $5, $6)";
        AUDITED = "SELECT id, at, actor, action, subject, outcome, correlation \
                   FROM resolve_audit ORDER BY id DESC LIMIT $1";
    }
}
