package service

import (
	"context"
	"sort"
	"time"

	"shield/runtime/luavm"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// Inspection is one service from inside, as far as it lets itself be looked at.
type Inspection struct {
	Row        shield.ServiceRow
	Script     string
	Files      []string // what it runs, the script first
	Age        time.Duration
	Mailbox    int           // messages of any kind that wait
	MailboxAge time.Duration // of the oldest of them, about
	InFlight   int           // turns begun and not over
	Handled    []Handled     // by total time, the dearest first
	Waiting    []Parked      // oldest first; without stacks when Stuck is set
	Timers     []Ticking     // the next first
	Stuck      *Stuck        // it could not be entered; what follows is empty then

	Memory  int64 // bytes, an estimate; measured now, unless it is stuck
	Objects int
	Tables  []luavm.Weight // the heaviest first
	State   []Held         // only if it was asked for
}

// Ticking is one timer.
type Ticking struct {
	ID       uint64
	In       time.Duration // negative when it is due
	Every    time.Duration // 0 = once
	Function string        // file:line; "" when the service is stuck, or in Go
}

// Stuck is the turn that keeps everybody else out.
type Stuck struct {
	Method string
	Kind   string
	For    time.Duration // since the turn began
	Stack  string        // "" when not even that can be had: a Go function does not return
}

// Held is something a service keeps between two turns.
type Held struct {
	Name string
	Kind string // "field" of the module, "local" of the file, "session" of the tool that asks
	Text string
}

// InspectRequest says what to look at.
type InspectRequest struct {
	Target  Target
	State   bool   // also what the service holds
	Session string // whose locals count as state too
	Tables  int    // how many of the heaviest tables; 10
}

// enterTime is how long a service may keep an inspection waiting before it
// counts as stuck. A handler that runs longer hurts everybody who waits.
const enterTime = 500 * time.Millisecond

// Inspect looks at one service of this node. It succeeds on a stuck one too.
func (r *Runtime) Inspect(ctx context.Context, req InspectRequest) (*Inspection, error) {
	s, _, rerr := r.resolve(req.Target)
	if rerr != nil {
		return nil, rerr
	}
	if s == nil {
		return nil, shield.Errorf(shield.InvalidTarget, "inspect %s: the service is on another node; ask that", req.Target)
	}
	if req.Tables <= 0 {
		req.Tables = 10
	}
	in := &Inspection{Row: s.row(), Script: s.spec.Script, Memory: s.memory.Load()}
	enter, cancel := context.WithTimeout(ctx, enterTime)
	defer cancel()
	inside := make(chan *Inspection, 1)
	err := s.inside(enter, func(*worker) { inside <- s.lookInside(req) })
	if err == nil {
		part := <-inside
		in.Files, in.Memory, in.Objects, in.Tables, in.State = part.Files, part.Memory, part.Objects, part.Tables, part.State
		in.Waiting, in.Timers, in.InFlight = part.Waiting, part.Timers, part.InFlight
	} else if shield.CodeOf(err) == shield.ServiceDead {
		return nil, err
	} else {
		in.Stuck = s.stuck()
		in.Waiting = s.waitRows(nil)
		in.Timers = s.ticking(false)
		if in.Stuck != nil {
			in.InFlight = len(in.Waiting) + 1
			in.Stuck.Stack = s.runningStack(ctx)
		}
	}
	in.Row.Memory = in.Memory
	in.Handled = s.handled()
	sort.Slice(in.Handled, func(i, j int) bool {
		a, b := in.Handled[i], in.Handled[j]
		if x, y := int64(a.Mean)*a.Count, int64(b.Mean)*b.Count; x != y {
			return x > y
		}
		return a.Method < b.Method
	})
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	in.Mailbox = s.box.n
	if at := s.box.oldest(); at != 0 {
		in.MailboxAge = time.Duration(now - at)
	}
	if s.born != 0 {
		in.Age = time.Duration(now - s.born)
	}
	return in, nil
}

// lookInside is the part of an inspection that needs the baton.
func (s *Service) lookInside(req InspectRequest) *Inspection {
	in := &Inspection{Waiting: s.parkedRows(), Timers: s.ticking(true), InFlight: s.inflight}
	b, ok := s.body.(*luaBody)
	if !ok {
		return in
	}
	for _, m := range b.vm.Modules() {
		in.Files = append(in.Files, m.Path)
	}
	u, tables := b.vm.Weigh(req.Tables)
	in.Memory, in.Objects, in.Tables = u.Bytes, u.Objects, tables
	s.memory.Store(u.Bytes)
	if req.State {
		in.State = b.state(req.Session)
	}
	return in
}

// state lists what the service holds, without running anything of it.
func (b *luaBody) state(session string) []Held {
	var all []Held
	p := value.Printer{Depth: 2, Items: 10, Width: 100}
	add := func(kind, name string, v lua.LValue) {
		if v != lua.LNil && v.Type() != lua.LTFunction && v != lua.LValue(b.module) {
			all = append(all, Held{Name: name, Kind: kind, Text: cutText(p.Print(v))})
		}
	}
	if b.module != nil {
		for _, name := range b.vm.Fields(b.module) {
			add("field", "M."+name, b.vm.Field(b.module, lua.LString(name)))
		}
	}
	cells := b.vm.FileLocals()
	names := make([]string, 0, len(cells))
	for name := range cells {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		add("local", name, cells[name].Value())
	}
	if sc := b.sessions[session]; sc != nil {
		names = names[:0]
		for name := range sc.own {
			if name != "_" {
				names = append(names, name)
			}
		}
		sort.Strings(names)
		for _, name := range names {
			add("session", name, sc.env.RawGetString(name))
		}
	}
	return all
}

// ticking lists the timers. Where their functions stand can be read with the
// baton only.
func (s *Service) ticking(baton bool) []Ticking {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Ticking, 0, len(s.timers.byID))
	for _, t := range s.timers.byID {
		row := Ticking{ID: t.id, In: time.Duration(t.at - now), Every: t.period}
		if baton {
			row.Function = placeOf(t.fn)
		}
		all = append(all, row)
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].In != all[j].In {
			return all[i].In < all[j].In
		}
		return all[i].ID < all[j].ID
	})
	return all
}

// stuck is the turn that runs; nil when none does.
func (s *Service) stuck() *Stuck {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	t := s.turn.Load()
	if !held || t == nil || t.Over() {
		return nil
	}
	return &Stuck{Method: t.Method, Kind: t.Kind.String(), For: time.Duration(s.now() - t.begun)}
}

// what names the turn that runs.
func (st *Stuck) what() string {
	if st.Method == "" {
		return "its " + st.Kind
	}
	return st.Method
}

// stuckText says for an error of whoever waits for s that s is inside a turn,
// which is more than nobody's having answered; "" when it is not, or far away.
func stuckText(s *Service) string {
	if s == nil {
		return ""
	}
	st := s.stuck()
	if st == nil || st.For < stuckAfter {
		return ""
	}
	return ": " + s.label() + " is inside " + st.what() + " for " + st.For.Round(10*time.Millisecond).String() +
		" and reads no messages (limits.max_handler_ms ends it at " + s.lim.MaxHandler.String() + ")"
}

// stuckAfter is from when on a turn is what keeps a caller waiting.
const stuckAfter = 100 * time.Millisecond

// runningStack asks the turn that runs where it is.
func (s *Service) runningStack(ctx context.Context) string {
	b, ok := s.body.(*luaBody)
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, stackTime)
	defer cancel()
	stack, _ := b.vm.Running(ctx)
	return stack
}

// Started is how a service began.
type Started struct {
	Time  time.Time // on the wall clock
	Files []string  // its script
}

// Started says when a service of this node began. Any goroutine.
func (r *Runtime) Started(id shield.ServiceID) (Started, error) {
	s, err := r.service(id)
	if err != nil {
		return Started{}, err
	}
	s.mu.Lock()
	born := s.born
	s.mu.Unlock()
	st := Started{Time: time.Now()}
	if born != 0 {
		st.Time = st.Time.Add(-time.Duration(s.now() - born))
	}
	if s.spec.Script != "" {
		st.Files = []string{s.spec.Script}
	}
	return st, nil
}
