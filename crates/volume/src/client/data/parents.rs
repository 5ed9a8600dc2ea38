//! The allocations that the pieces of a request lie in: the paper's parent buffers. Each is registered once, however
//! many of the pieces it has, and the request names all of them.

use super::DataError;
use crate::client::pin_down::{Exposed, PinDownCache};
use crate::client::registered::CallEnd;
use gannet_fabric::{Access, RegisterError, Scope, Span};
use gannet_runtime::Buffer;
use gannet_wire::volume::{Memory, PIECES_MAX, RegionPiece, Shape};
use std::ops::Range;
use std::rc::Rc;

/// Where allocations begin that are taken to lie one behind the other, and which of them a request touches.
pub(super) struct Parents {
    starts: Vec<u64>,
    touched: Vec<bool>,
}

impl Parents {
    /// The allocations of a request for the bytes `memory`. `None`: some bytes lie in no allocation or in two, or there
    /// are several allocations and more pieces than a request names.
    pub(super) fn new(buffers: &[Buffer], memory: &Shape) -> Option<Parents> {
        let starts = buffers.iter().scan(0, |end, buffer| {
            let start = *end;
            *end += buffer.len() as u64;
            Some(start)
        });
        let mut parents = Parents {
            starts: starts.collect(),
            touched: vec![false; buffers.len()],
        };
        if let [only] = buffers {
            parents.touched = vec![true];
            return (memory.end() <= only.len() as u64).then_some(parents);
        }
        for (number, piece) in memory.pieces().enumerate() {
            let (parent, range) = parents.range(piece.offset, piece.len);
            let holds = buffers.get(parent)?.len() >= range.end;
            *parents.touched.get_mut(parent)? = true;
            if !holds || number >= PIECES_MAX {
                return None;
            }
        }
        Some(parents)
    }

    /// One allocation, of which a request touches some bytes.
    pub(super) fn one() -> Parents {
        Parents {
            starts: vec![0],
            touched: vec![true],
        }
    }

    /// The allocations that the request touches.
    pub(super) fn of<'a>(&'a self, buffers: &'a [Buffer]) -> impl Iterator<Item = &'a Buffer> {
        let touched = buffers.iter().zip(&self.touched);
        touched.filter(|(_, touched)| **touched).map(|it| it.0)
    }

    /// Which allocation a byte is in, and how far: one behind all of them is in the last.
    fn place(&self, offset: u64) -> (usize, u64) {
        let parent = self.starts.partition_point(|start| *start <= offset);
        let parent = parent.saturating_sub(1);
        let start = self.starts.get(parent).copied().unwrap_or(0);
        (parent, offset - start)
    }

    /// The same of several bytes.
    pub(super) fn range(&self, offset: u64, len: u32) -> (usize, Range<usize>) {
        let (parent, start) = self.place(offset);
        // Offsets lie in memory.
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        (parent, start..start.saturating_add(len as usize))
    }
}

/// The allocations of a request while servers can reach them.
pub(super) struct Reached {
    starts: Parents,
    /// None for those that the request does not touch.
    exposed: Vec<Option<Rc<Exposed>>>,
    /// Dropped with the last call that may still reach the allocations.
    _end: Option<CallEnd>,
}

impl Reached {
    /// Memory that stays registered. `end` is dropped when no call can reach it for this request any more.
    pub(super) fn kept(exposed: Rc<Exposed>, end: CallEnd) -> Reached {
        Reached {
            starts: Parents::one(),
            exposed: vec![Some(exposed)],
            _end: Some(end),
        }
    }

    /// Registers each allocation that the request touches.
    ///
    /// # Errors
    /// One cannot be registered: that one is gone, the others are there.
    pub(super) async fn expose(
        cache: &PinDownCache,
        access: Access,
        scope: Scope,
        parents: &Parents,
        buffers: &mut [Buffer],
    ) -> Result<Reached, RegisterError> {
        let mut reached = Reached {
            starts: Parents {
                starts: parents.starts.clone(),
                touched: Vec::new(),
            },
            exposed: Vec::with_capacity(buffers.len()),
            _end: None,
        };
        for number in 0..buffers.len() {
            let is_touched = parents.touched.get(number) == Some(&true);
            let exposed = match buffers.get_mut(number).filter(|_| is_touched) {
                Some(buffer) => {
                    let exposing = cache.expose(std::mem::take(buffer), access, scope);
                    exposing.await.map(|exposed| Some(Rc::new(exposed)))
                }
                None => Ok(None),
            };
            match exposed {
                Ok(exposed) => reached.exposed.push(exposed),
                Err(error) => {
                    // What was lost of the others cannot be told beside this.
                    let _ = reached.take_back(cache, buffers).await;
                    return Err(error);
                }
            }
        }
        Ok(reached)
    }

    /// How servers are told of the bytes of `shape`.
    pub(super) fn memory(&self, shape: &Shape) -> Memory {
        if let [Some(only)] = &self.exposed[..]
            && let Some(memory) = only.memory(shape)
        {
            return memory;
        }
        let pieces = shape.pieces().filter_map(|mut piece| {
            let (parent, offset) = self.starts.place(piece.offset);
            let (key, base) = self.exposed.get(parent)?.as_ref()?.address();
            piece.offset = base.checked_add(offset)?;
            Some(RegionPiece { key, piece })
        });
        Memory::Regions(pieces.collect())
    }

    /// Part of an allocation, as the source of an RDMA Write; `None` when it is not reached.
    pub(super) fn span(&self, offset: u64, len: u32) -> Option<Span> {
        let (parent, offset) = self.starts.place(offset);
        let exposed = self.exposed.get(parent)?.as_ref()?;
        Some(exposed.span(offset, len))
    }

    /// Puts all memory back where it was: no access by its keys succeeds any more.
    ///
    /// # Errors
    /// `Shape`: the adapter has lost some of it. The rest is back.
    pub(super) async fn take_back(
        self,
        cache: &PinDownCache,
        buffers: &mut [Buffer],
    ) -> Result<(), DataError> {
        let mut all = Ok(());
        for (exposed, place) in self.exposed.into_iter().zip(buffers) {
            let Some(exposed) = exposed else {
                continue;
            };
            // No other request has it.
            let Some(exposed) = Rc::into_inner(exposed) else {
                all = Err(DataError::Shape);
                continue;
            };
            match cache.take_back(exposed).await {
                Some(buffer) => *place = buffer,
                None => all = Err(DataError::Shape),
            }
        }
        all
    }
}
