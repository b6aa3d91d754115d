package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"shield/devserver"
	"shield/runtime/config"
	"shield/runtime/play"
)

// The players of the demo are ordinary clients. They are there so that the
// console has something to show.

const (
	demoStep  = 400 * time.Millisecond // from one frame to the next, and up to twice that
	demoAgain = time.Second            // after a connection that was lost or could not be made
)

var demoWords = []string{"hello", "anybody here?", "nice room", "over here!", "brb", "follow me"}

// playDemo lets players enter the demo's game; they leave when ctx ends, and crowd
// then knows.
func playDemo(ctx context.Context, crowd *sync.WaitGroup, project *config.Config, srv *devserver.Server, nodes, players int) error {
	rows, err := srv.Nodes("node-1")
	if err != nil {
		return fmt.Errorf("find the demo's gateway: %w", err)
	}
	if len(rows) == 0 || len(rows[0].Gateways) == 0 || len(project.Gateways) == 0 {
		return errors.New("node-1 of the demo has no gateway")
	}
	cfg := clientOf(project, &project.Gateways[0], rows[0].Gateways[0])
	for i := range players {
		p := demoPlayer{name: fmt.Sprintf("bot-%d", i+1), nodes: nodes, cfg: cfg}
		crowd.Go(func() { p.run(ctx) })
	}
	return nil
}

// demoPlayer plays until its context ends.
type demoPlayer struct {
	name  string
	nodes int
	cfg   play.Config
}

// run comes back whenever it is thrown out: whoever looks at the demo restarts and
// kills what they like.
func (p *demoPlayer) run(ctx context.Context) {
	for ctx.Err() == nil {
		if conn, err := play.Dial(ctx, p.cfg); err == nil {
			p.play(ctx, conn)
			_ = conn.Close() // lost or not, it is over
		}
		pause(ctx, demoAgain)
	}
}

// play walks about until the connection is lost.
func (p *demoPlayer) play(ctx context.Context, conn *play.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	reader.Go(func() {
		defer cancel()
		for {
			if _, err := conn.Recv(ctx); err != nil {
				return
			}
		}
	})
	x, y := rand.IntN(20), rand.IntN(20)
	route, body := "auth.login", fmt.Sprintf(`{"name":%q}`, p.name)
	for conn.Send(route, []byte(body)) == nil && pause(ctx, demoStep+rand.N(demoStep)) {
		switch n := rand.IntN(30); {
		case n == 0:
			route, body = "player.goto", fmt.Sprintf(`{"node":"node-%d"}`, 1+rand.IntN(p.nodes))
		case n == 1:
			route, body = "chat.say", fmt.Sprintf(`{"text":%q}`, demoWords[rand.IntN(len(demoWords))])
		default:
			x, y = x+rand.IntN(3)-1, y+rand.IntN(3)-1
			route, body = "player.move", fmt.Sprintf(`{"x":%d,"y":%d}`, x, y)
		}
	}
}

// pause reports whether ctx outlived d.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
