package watch

import (
	"path/filepath"
)

// follow asks for the events of every folder that the last scan saw. Folders
// that are gone drop out by themselves.
func (w *Watcher) follow() {
	have := map[string]bool{}
	for _, d := range w.events.WatchList() {
		have[d] = true
	}
	for _, d := range w.scan.dirs {
		if have[d] {
			continue
		}
		have[d] = true
		if err := w.events.Add(d); err != nil && w.ctx.Err() == nil {
			w.once("not every folder can be watched for events (%v; on Linux see fs.inotify.max_user_watches): looking every %v as well", err, w.cfg.Poll)
			return
		}
	}
}

func (w *Watcher) full(path string) string {
	return filepath.Join(w.root, filepath.FromSlash(path))
}
