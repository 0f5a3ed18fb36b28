//! Kind 5.

use std::sync::Arc;

use grip_nostr::Event;
use grip_relay::{Answer, Source, answer_to_put};
use grip_store::Put;

use crate::{admission::Outcome, grasp::Core, trouble::Trouble};

impl Core {
    pub(super) async fn settle_deletion(
        self: &Arc<Self>,
        event: &Event,
        source: Source,
    ) -> Result<Answer, Trouble> {
        let identifiers = self.concerned(event).await?;
        let _turns = self.turns(identifiers).await?;
        let decision = self.decide(event, source).await?;
        let answer = self.answer(event, &decision);
        if decision.outcome != Outcome::Serve {
            return Ok(answer);
        }
        // Stored first: whatever a crash leaves undone, the start does again because of it.
        let puts = self.writer.save(vec![event.clone()]).await?;
        if !matches!(puts[0], Put::Stored { .. } | Put::Duplicate) {
            return Ok(answer_to_put(&puts[0], false));
        }
        for effect in decision.effects {
            if let Err(trouble) = self.carry_out(vec![effect]).await {
                trouble.log("a deletion could not be carried out in full");
            }
        }
        Ok(answer)
    }
}
