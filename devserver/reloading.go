package devserver

import (
	"context"

	"shield/runtime/control"
	"shield/runtime/shield"
)

type reloading struct{ s *Server }

func startReloading(s *Server) (*reloading, error) { return &reloading{s}, nil }
func (r *reloading) close()                        {}
func (r *reloading) mark(rows []shield.ServiceRow) {}
func (s *Server) PauseReload() bool                { return false }
func (s *Server) Reload(ctx context.Context, r control.ReloadRequest) (control.ReloadResult, error) {
	return control.ReloadResult{}, shield.Errorf(shield.ModuleUnavailable, "reload is being wired")
}
func (s *Server) answersPing(name shield.Name) bool { return false }
