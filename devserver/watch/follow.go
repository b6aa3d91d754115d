package watch

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// follow asks for the events of every folder that the last scan saw, and says
// whether one of them is new: what was written there since the scan gave no
// event. Folders that are gone drop out by themselves; one that was moved may
// never be on the list under its new name, but its events come.
func (w *Watcher) follow() (more bool) {
	have := map[string]bool{}
	for _, d := range w.events.WatchList() {
		have[d] = true
	}
	before := w.followed
	w.followed = make(map[string]bool, len(w.scan.dirs))
	for _, d := range w.scan.dirs {
		w.followed[d] = true
		if have[d] {
			continue
		}
		have[d] = true
		err := w.events.Add(d)
		switch {
		case err == nil:
			more = more || !before[d]
		case errors.Is(err, fs.ErrNotExist): // gone since the scan
		case w.ctx.Err() == nil:
			w.once("not every folder can be watched for events (%v; on Linux see fs.inotify.max_user_watches): looking every %v as well", err, w.cfg.Poll)
			return false
		}
	}
	return more
}

func (w *Watcher) full(path string) string {
	return filepath.Join(w.root, filepath.FromSlash(path))
}
