package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"shield/runtime/shield"
)

// EpochFile remembers a node's last epoch in a file, so that the next one is
// higher even if the wall clock went back. A missing file is a first start.
type EpochFile string

// Load reads the last epoch; 0 when there is none.
func (f EpochFile) Load() (shield.NodeEpoch, error) {
	b, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the last node epoch: %w", err)
	}
	e, err := shield.ParseNodeEpoch(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("read the last node epoch from %s: %w (delete the file to begin anew)", f, err)
	}
	return e, nil
}

// Save writes e so that a crash leaves either the old number or the new one.
func (f EpochFile) Save(e shield.NodeEpoch) error {
	tmp, err := os.CreateTemp(filepath.Dir(string(f)), filepath.Base(string(f))+".*")
	if err != nil {
		return fmt.Errorf("remember the node epoch: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(e.String() + "\n")
	if err == nil {
		err = tmp.Sync() // else a power cut may leave an empty file under the new name
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), string(f))
	}
	if err != nil {
		return fmt.Errorf("remember the node epoch: %w", err)
	}
	return nil
}
