package cluster

import (
	"fmt"
	"time"

	"shield/runtime/shield"
)

// EpochStore remembers the last epoch of a node across its starts.
type EpochStore interface {
	Load() (shield.NodeEpoch, error) // 0 when there is none
	Save(shield.NodeEpoch) error
}

// NextEpoch gives a node's epoch for this start: its wall clock in nanoseconds,
// but always more than the last one in the store, so that it rises even if the
// clock went back. It is saved before it is used. Without a store (nil) only the
// clock speaks; then peers that remember a higher epoch make Start take one
// above it.
func NextEpoch(now time.Time, store EpochStore) (shield.NodeEpoch, error) {
	epoch := shield.NodeEpoch(max(1, now.UnixNano()))
	if store == nil {
		return epoch, nil
	}
	last, err := store.Load()
	if err != nil {
		return 0, fmt.Errorf("read the last epoch of this node: %w", err)
	}
	epoch = max(epoch, last+1)
	if err := store.Save(epoch); err != nil {
		return 0, fmt.Errorf("save the epoch of this node: %w", err)
	}
	return epoch, nil
}
