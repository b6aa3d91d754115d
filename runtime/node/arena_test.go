package node_test

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/config"
	"shield/runtime/shield"
	"shield/templates"
)

// Races run as many seeds as this says; what they mean is fixed by the seed, how
// goroutines interleave is not.
//
//	go test ./runtime/node -run Seeds -seeds 1000
var seeds = flag.Int("seeds", 0, "how many seeds the races of sessions run; 0 = a few")

func seedsOr(few int) uint64 {
	if *seeds > 0 {
		return uint64(*seeds)
	}
	return uint64(few)
}

// arena is the template that shield new writes, with its gateway on every node.
func arena(t *testing.T) (map[string]string, *config.Config) {
	t.Helper()
	made, err := templates.Files("arena", templates.Data{Name: "arena", Token: "0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	project := map[string]string{}
	for _, f := range made {
		project[f.Path] = string(f.Data)
	}
	const one = "  - name: main\n    nodes: [node-1]\n"
	if !strings.Contains(project["shield.yaml"], one) {
		t.Fatalf("the arena's gateway does not read %q any more", one)
	}
	project["shield.yaml"] = strings.NewReplacer(one, "  - name: main\n", "127.0.0.1:7001", "127.0.0.1:0").Replace(project["shield.yaml"])
	return project, loadFiles(t, project, 3)
}

// C1: a hundred logins of one player race through three gateways on three
// nodes. One session stays bound; every other one is closed with the policy's
// reason; the epochs of each session only rise.
func TestSeedsOfRacingLogins(t *testing.T) {
	project, c := arena(t)
	for seed := range seedsOr(50) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, c, project, seed)
			w.names = 1 // players
			defer w.stop()
			w.start(3)
			raceLogins(t, w, seed)
		})
		if t.Failed() {
			t.Fatalf("seed %d; again: go test ./runtime/node -run SeedsOfRacingLogins -count 20", seed)
		}
	}
}

const (
	loginOK   shield.RouteID = 2001
	playerID                 = "racer"
	raceCount                = 100
	elsewhere                = "logged in elsewhere"
)

func raceLogins(t *testing.T, w *world, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w.net.Faults(0.02*rng.Float64(), 0.02*rng.Float64(), time.Duration(rng.IntN(5000))*time.Microsecond)
	spread := 1 + rng.IntN(50_000)
	ended := make(chan string, raceCount)
	var all []*player
	var wg sync.WaitGroup
	for range raceCount {
		p := w.connectTo(shield.NodeID(fmt.Sprint("node-", 1+rng.IntN(3))))
		all = append(all, p)
		pause := time.Duration(rng.IntN(spread)) * time.Microsecond
		wg.Go(func() {
			time.Sleep(pause) // virtual
			p.send(1001, map[string]string{"name": playerID})
			for f := range p.frames {
				if f.route == shield.RouteClose {
					ended <- f.body
				}
			}
		})
	}
	for range raceCount - 1 {
		select {
		case reason := <-ended:
			if reason != elsewhere {
				t.Errorf("a client was closed with %q", reason)
			}
		case <-time.After(time.Minute): // virtual
			t.Errorf("after a minute %d clients of %d are closed", len(ended), raceCount-1)
			goto over
		}
	}
	time.Sleep(time.Second)
	if rows := w.sessions(); len(rows) != 1 || rows[0].Player != playerID || rows[0].State != shield.SessionBound || rows[0].Epoch != 1 {
		t.Errorf("the sessions that are left: %+v, want one, bound, at epoch 1", rows)
	}
	if len(ended) != 0 {
		t.Errorf("the last one was closed too: %q", <-ended)
	}
over:
	for _, p := range all {
		p.conn.Close()
	}
	wg.Wait()
	time.Sleep(time.Second)
	wantEpochs(t, w, raceCount)
}

// sessions lists those of all nodes.
func (w *world) sessions() (rows []shield.SessionRow) {
	for _, n := range w.nodes {
		rows = append(rows, n.Sessions()...)
	}
	return rows
}

var epochLine = regexp.MustCompile(`event=epoch .*session=(\S+) .*from=(\d+) to=(\d+) cause=(\S+)`)

// wantEpochs reads every step of every epoch in the log: each session begins at
// 0, goes up one by one, and ends once.
func wantEpochs(t *testing.T, w *world, sessions int) {
	t.Helper()
	at, over := map[string]int{}, map[string]bool{}
	for lines := bufio.NewScanner(strings.NewReader(w.logs.String())); lines.Scan(); {
		m := epochLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		from, _ := strconv.Atoi(m[2]) // digits, says the expression
		to, _ := strconv.Atoi(m[3])
		if from != at[m[1]] || to != from+1 || over[m[1]] {
			t.Errorf("session %s was at %d (over: %v), then: %s", m[1], at[m[1]], over[m[1]], lines.Text())
		}
		at[m[1]] = to
		over[m[1]] = m[4] != "bind"
	}
	if len(at) != sessions || len(over) != sessions {
		t.Errorf("the log tells of %d sessions, want %d", len(at), sessions)
	}
	for id, end := range over {
		if !end {
			t.Errorf("session %s has not ended", id)
		}
	}
}
