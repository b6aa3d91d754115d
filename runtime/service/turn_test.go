package service

import (
	"context"
	"testing"
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// Config.Turn is asked before each turn and before a parked one goes on, with
// the baton held: no two goroutines of a service are ever past it.
func TestTurnsAreAskedFor(t *testing.T) {
	asked := make(chan shield.ServiceID, 100)
	r, err := New(Config{Turn: func(id shield.ServiceID) { asked <- id }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(context.Background())
	if err := r.Start(context.Background(), []Spec{{Name: "sleeper", Instances: 1, Go: func() GoService { return &sleeper{} }}}); err != nil {
		t.Fatal(err)
	}
	for len(asked) > 0 {
		<-asked
	}
	if _, _, err := r.Call(context.Background(), CallRequest{Target: Target{Name: "sleeper"}, Method: "nap"}); err != nil {
		t.Fatal(err)
	}
	if n := len(asked); n != 2 {
		t.Errorf("a handler that waits once asked for %d turns, want 2", n)
	}
}

// sleeper waits a moment in each handler.
type sleeper struct{}

func (*sleeper) Init(*GoContext, GoArgs) error { return nil }
func (*sleeper) Handle(ctx *GoContext, _ string, _ value.Payload) (value.Payload, error) {
	return value.Payload{}, ctx.Sleep(time.Millisecond)
}
func (*sleeper) Shutdown(*GoContext, string) {}
func (*sleeper) Exit(string)                 {}
