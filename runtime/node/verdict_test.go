package node_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
)

// A link that is cut one way about as long as the offline time-out may be lost in
// the eyes of one node and not of the other. Whoever saw it lost, both ends of a
// session agree in the end: it lives and its target has heard nothing, or it is
// closed and the target has heard so once.
func TestBothEndsOfASessionAgreeOnALostLink(t *testing.T) {
	for _, way := range []struct{ name, from, to string }{
		{"to the gateway", addrOf(2), addrOf(1)},
		{"to the target", addrOf(1), addrOf(2)},
	} {
		for ms := 9500; ms <= 12500; ms += 500 {
			t.Run(fmt.Sprint(way.name, " for ", ms), func(t *testing.T) {
				inGame(t, func(t *testing.T, w *world) {
					p := w.connect()
					p.login("ann")
					w.wantHeard("node-2", "player", "bound ann")
					w.net.Cut(way.from, way.to)
					time.Sleep(time.Duration(ms) * time.Millisecond)
					w.net.HealAll()
					time.Sleep(20 * time.Second)
					heard, err := w.call("node-2", "player", "heard")
					if err != nil {
						t.Fatal(err)
					}
					ends := strings.Count(heard, "unbound ann") + strings.Count(heard, "disconnected ann")
					if live := w.nodes["node-1"].Gateways()[0].Sessions; live+ends != 1 {
						t.Errorf("%d sessions are there and the target heard %s, want one or the other", live, heard)
					}
				})
			})
		}
	}
}

// Binds, kicks and drops race while links are cut, one way or both, about as long
// as the offline time-out. Frames may be lost then, but no target hears of the end
// of a session twice, none that holds a session to its end hears nothing, and no
// gateway keeps one that is over.
func TestSeedsOfLostLinks(t *testing.T) {
	c := loadFiles(t, races, 3)
	for seed := range seedsOr(30) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, c, races, seed)
			w.names = 1 // auth
			defer w.stop()
			w.start(3)
			rng := rand.New(rand.NewPCG(seed, 23))
			var all []*sessionRace
			for i := range uint64(6) {
				r := newSessionRace(w, seed*6+i)
				all = append(all, r)
				r.login()
			}
			var wg sync.WaitGroup
			for _, far := range []string{addrOf(2), addrOf(3)} {
				from, length := time.Duration(rng.IntN(6000)), time.Duration(8500+rng.IntN(5000))
				both, there := rng.IntN(3) == 0, rng.IntN(2) == 0
				wg.Go(func() {
					time.Sleep(from * time.Millisecond)
					if both || there {
						w.net.Cut(addrOf(1), far)
					}
					if both || !there {
						w.net.Cut(far, addrOf(1))
					}
					time.Sleep(length * time.Millisecond)
					w.net.Heal(addrOf(1), far)
					w.net.Heal(far, addrOf(1))
				})
			}
			for _, r := range all {
				for range 6 {
					act, pause := r.lossyAct(), time.Duration(rng.IntN(25_000))*time.Millisecond
					wg.Go(func() {
						time.Sleep(pause)
						act()
					})
				}
			}
			wg.Wait()
			time.Sleep(20 * time.Second)
			for _, r := range all {
				r.p.conn.Close()
			}
			time.Sleep(2 * time.Second)
			for _, r := range all {
				r.checkEnds()
			}
			if t.Failed() {
				t.Errorf("seed %d", seed)
			}
		})
	}
}

// lossyAct is an act whose messages may be lost.
func (r *sessionRace) lossyAct() func() {
	node := r.anyNode()
	with := func(method string) {
		r.mu.Lock()
		ref := r.refs[len(r.refs)-1]
		r.mu.Unlock()
		if got, ok, err := r.w.refFrom(node, "racer", method, ref); ok && err == nil {
			r.mu.Lock()
			r.refs = append(r.refs, got)
			r.mu.Unlock()
		}
	}
	switch n := r.rng.IntN(10); {
	case n < 5:
		return func() { with("take") }
	case n < 8:
		return func() { r.p.send(1002, nil) }
	case n < 9:
		return func() { with("kick") }
	default:
		return func() { r.p.conn.Close() }
	}
}

// checkEnds asks the services what they heard of a session that is over.
func (r *sessionRace) checkEnds() {
	t := r.w.t
	id := r.refs[0].Session
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		held, events := "", []heardEvent{}
		for _, e := range r.heardOn(node) {
			if e.Session != string(id) || e.What == "hello" {
				continue
			}
			events = append(events, e)
			if e.What == "bound" {
				held = e.Ref
				continue
			}
			if held != e.Ref {
				t.Errorf("%s heard of an end that is not that of its binding: %v", node, events)
			}
			held = ""
		}
		if held != "" && epochOf(held) == r.lastBound() {
			t.Errorf("%s held %s to its end and heard nothing of it: %v", node, held, events)
		}
	}
	if rows := r.w.sessions(); len(rows) != 0 {
		t.Errorf("left over: %+v", rows)
	}
}

// lastBound is the epoch of the session's last bind, by the gateway's log.
func (r *sessionRace) lastBound() (last shield.SessionEpoch) {
	for _, m := range epochLine.FindAllStringSubmatch(r.w.logs.String(), -1) {
		if to, _ := strconv.Atoi(m[3]); m[1] == string(r.refs[0].Session) && m[4] == "bind" { // digits, says the expression
			last = max(last, shield.SessionEpoch(to))
		}
	}
	return last
}

// heardOn is what the racer of a node has heard.
func (r *sessionRace) heardOn(node string) []heardEvent {
	r.w.t.Helper()
	text, err := r.w.call(shield.NodeID(node), "racer", "heard")
	if err != nil {
		r.w.t.Fatal(err)
	}
	var lists [][]heardEvent
	if err := json.Unmarshal([]byte(text), &lists); err != nil {
		r.w.t.Fatalf("%v: %s", err, text)
	}
	return lists[0]
}
