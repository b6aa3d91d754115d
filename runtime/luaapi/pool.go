package luaapi

import (
	"hash/fnv"
	"path"
	"sort"
	"strings"
	"time"

	"shield/runtime/service"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// picker is what shield.pool returns: it spreads work over all services whose
// published names match, on this node and on those that are online.
type picker struct {
	pattern string
	policy  policy

	members []member
	version uint64 // of the local registry, when members was made
	made    time.Duration
}

// member is one service that a picker may choose.
type member struct {
	shield.Published
	key     string // "node:name"
	pending int
	weight  float64
	credit  float64 // of weighted
}

// stale is how long a picker trusts what it knows of other nodes.
const stale = 200 * time.Millisecond

// policy chooses one of members, which is not empty. key is the first argument
// of the message, for those that look at it.
type policy interface {
	choose(members []member, key lua.LValue) int
}

// roundRobin takes one after the other.
type roundRobin struct{ next int }

func (r *roundRobin) choose(members []member, _ lua.LValue) int {
	r.next = (r.next + 1) % len(members)
	return r.next
}

// leastPending takes the one that this picker waits least for; among equals,
// one after the other.
type leastPending struct{ after int }

func (l *leastPending) choose(members []member, _ lua.LValue) int {
	best := -1
	for i := range members {
		at := (l.after + 1 + i) % len(members)
		if best < 0 || members[at].pending < members[best].pending {
			best = at
		}
	}
	l.after = best
	return best
}

// consistentHash takes the same one for the same key as long as it is there:
// the highest score of key and member wins, so that one that comes or goes
// moves its own keys only.
type consistentHash struct{}

func (consistentHash) choose(members []member, v lua.LValue) int {
	best, top, key := 0, uint64(0), ""
	if v != lua.LNil {
		key = v.String()
	}
	for i := range members {
		if s := score(key, members[i].key); i == 0 || s > top {
			best, top = i, s
		}
	}
	return best
}

func score(key, member string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	h.Write([]byte{0})
	h.Write([]byte(member))
	x := h.Sum64() // fnv alone mixes its last bytes too little
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// weighted takes each in proportion to its weight, spread evenly.
type weighted struct{}

func (weighted) choose(members []member, _ lua.LValue) int {
	best, sum := 0, 0.0
	for i := range members {
		members[i].credit += members[i].weight
		sum += members[i].weight
		if members[i].credit > members[best].credit {
			best = i
		}
	}
	members[best].credit -= sum
	return best
}

var policies = []string{"round_robin", "least_pending", "consistent_hash", "weighted"}

func newPool(L *lua.LState) int {
	p := &picker{pattern: L.CheckString(1), policy: &roundRobin{next: -1}}
	if _, err := path.Match(p.pattern, ""); err != nil || p.pattern == "" {
		L.ArgError(1, "a name or a pattern such as worker.* expected")
	}
	weights := map[string]float64{}
	if opts := L.OptTable(2, nil); opts != nil {
		if t, ok := opts.RawGetString("weights").(*lua.LTable); ok {
			t.ForEach(func(k, v lua.LValue) {
				if n, ok := v.(lua.LNumber); ok && n > 0 {
					weights[k.String()] = float64(n)
				}
			})
		}
		switch name := opts.RawGetString("policy"); name.String() {
		case "nil", "round_robin":
		case "least_pending":
			p.policy = &leastPending{after: -1}
		case "consistent_hash":
			p.policy = consistentHash{}
		case "weighted":
			p.policy = weighted{}
		default:
			hint := ""
			if near := shield.Nearest(name.String(), policies); near != "" {
				hint = "did you mean " + near + "? "
			}
			L.ArgError(2, "unknown policy "+name.String()+" ("+hint+"known: "+strings.Join(policies, ", ")+")")
		}
	}
	ud := &lua.LUserData{Value: &pool{picker: p, weights: weights}, Metatable: poolMeta}
	L.Push(ud)
	return 1
}

// pool is a picker in its VM.
type pool struct {
	*picker
	weights map[string]float64
}

var poolMeta = metatable("Pool", map[string]lua.LGFunction{
	"pick": poolPick, "send": poolSend, "call": poolCall,
}, map[string]lua.LGFunction{
	"__tostring": func(L *lua.LState) int { L.Push(lua.LString("pool " + checkPool(L).pattern)); return 1 },
})

func checkPool(L *lua.LState) *pool {
	if ud, ok := L.Get(1).(*lua.LUserData); ok {
		if p, ok := ud.Value.(*pool); ok {
			return p
		}
	}
	L.ArgError(1, "pool expected: write pool:call(...), with a colon")
	return nil
}

// refresh looks again who is there.
func (p *pool) refresh(r *service.Runtime) {
	now := r.Monotonic()
	if p.members != nil && r.NamesVersion() == p.version && (r.Config().Remote == nil || now-p.made < stale) {
		return
	}
	match := func(name shield.Name) bool {
		ok, _ := path.Match(p.pattern, string(name))
		return ok
	}
	local, version := r.Names()
	var found []service.Published
	for _, row := range local {
		if match(row.Name) {
			found = append(found, row)
		}
	}
	if remote := r.Config().Remote; remote != nil {
		found = append(found, remote.Published(match)...)
	}
	old := make(map[shield.Handle]*member, len(p.members))
	for i := range p.members {
		old[p.members[i].Handle] = &p.members[i]
	}
	members := make([]member, 0, len(found))
	for _, row := range found {
		m := member{Published: row, key: string(row.Node) + ":" + string(row.Name), weight: 1}
		for _, k := range []string{m.key, string(row.Name), string(row.Node)} {
			if w, ok := p.weights[k]; ok {
				m.weight = w
				break
			}
		}
		if before := old[row.Handle]; before != nil {
			m.pending, m.credit = before.pending, before.credit
		}
		members = append(members, m)
	}
	sort.Slice(members, func(i, j int) bool { return members[i].key < members[j].key })
	p.members, p.version, p.made = members, version, now
}

func (p *pool) pick(L *lua.LState, keyAt int) (*member, *shield.Error) {
	p.refresh(of(L).Runtime())
	if len(p.members) == 0 {
		return nil, shield.Errorf(shield.PoolEmpty, "no published service matches %q, here or on a node that is online", p.pattern)
	}
	return &p.members[p.policy.choose(p.members, L.Get(keyAt))], nil
}

// poolPick takes the key for consistent_hash as its argument.
func poolPick(L *lua.LState) int {
	m, err := checkPool(L).pick(L, 2)
	if err != nil {
		return none(L, err)
	}
	L.Push(of(L).Ref(m.Handle))
	return 1
}

func poolSend(L *lua.LState) int {
	m, err := checkPool(L).pick(L, 3)
	if err != nil {
		return refuse(L, err)
	}
	return sendTo(L, of(L), service.Target{Handle: m.Handle}, 2)
}

func poolCall(L *lua.LState) int {
	p := checkPool(L)
	m, err := p.pick(L, 3)
	if err != nil {
		return refuse(L, err)
	}
	h := m.Handle
	m.pending++
	defer p.release(h)
	return callTo(L, of(L), service.Target{Handle: h}, 2, 0)
}

// release is called when a call has ended; members may be others by then.
func (p *pool) release(h shield.Handle) {
	for i := range p.members {
		if p.members[i].Handle == h {
			p.members[i].pending--
			return
		}
	}
}
