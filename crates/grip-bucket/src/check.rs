//! Race of create-only puts, by which a store shows that it keeps what it acknowledges.

use futures_util::future::try_join_all;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, path::Path};

use crate::words::cause;

/// Puts of one name that race.
const RACERS: usize = 8;
/// Races, each for a name of its own: a store that loses does not lose every time.
const RACES: usize = 3;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The cause is translated: what the library says is for nobody.
    #[error("{0}")]
    Store(String),
    #[error(
        "{winners} of {RACERS} create-only puts of one name succeeded in the object store: one \
         overwrote the other. Use a store that does conditional writes (If-None-Match) one after the \
         other"
    )]
    Overwritten { winners: usize },
    #[error(
        "the object store acknowledged none of {RACERS} create-only puts of a name that was free: use \
         a store that does conditional writes (If-None-Match)"
    )]
    NoneTaken,
    #[error("the object store lost what it acknowledged, or gave back something else")]
    Lost,
}

impl From<object_store::Error> for CheckError {
    fn from(error: object_store::Error) -> Self {
        Self::Store(cause(&error))
    }
}

/// Lets several create-only puts of one name race, and sees that one of them wins and is kept.
///
/// What it writes it removes again.
pub async fn check(store: &dyn ObjectStore) -> Result<(), CheckError> {
    for _ in 0..RACES {
        let place = Path::from(format!("check/{:032x}", rand::random::<u128>()));
        let raced = race(store, &place).await;
        // A few bytes under a name that nobody looks for harm nobody.
        let _ = store.delete(&place).await;
        raced?;
    }
    Ok(())
}

async fn race(store: &dyn ObjectStore, place: &Path) -> Result<(), CheckError> {
    let put = |racer: usize| async move {
        let options = PutOptions::from(PutMode::Create);
        match store.put_opts(place, text(racer).into(), options).await {
            Ok(_) => Ok(Some(racer)),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let raced = try_join_all((0..RACERS).map(put)).await?;
    let winners: Vec<usize> = raced.into_iter().flatten().collect();
    let [winner] = winners[..] else {
        return Err(match winners.len() {
            0 => CheckError::NoneTaken,
            winners => CheckError::Overwritten { winners },
        });
    };
    let kept = match store.get(place).await {
        Ok(found) => found.bytes().await?,
        Err(object_store::Error::NotFound { .. }) => return Err(CheckError::Lost),
        Err(error) => return Err(error.into()),
    };
    if kept == text(winner) {
        Ok(())
    } else {
        Err(CheckError::Lost)
    }
}

/// What one of the racers writes.
fn text(racer: usize) -> String {
    format!("written by racer {racer}")
}
