package reload

import (
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Shape is what Analyse knows of one version of one file. It is immutable and
// may be shared.
type Shape struct {
	Path string // as messages name it

	fns    []*function // fns[0] is the file itself
	locals []*local
	slots  []*slot // in the order of their first line
	byKey  map[string]*slot
	stmts  []statement // top-level lines that initialise nothing
	result place       // where the returned value lives
	module *local      // the local that is returned whole, or nil
}

// function is one function of the source. kids are in the order in which the
// compiler makes their prototypes.
type function struct {
	id      int
	parent  *function
	kids    []*function
	line    int
	name    string // for people: "M.hit", "function"
	slot    string // key of the slot it is the whole initialiser of, or ""
	context string // the statement around it
	coarse  string // its part in that statement: "local f", "shield.timer(2)"
	body    string
	takes   map[string]*local // what it captures, by name; a name means one local
}

// local is one declaration: a local variable, a parameter or a loop variable.
type local struct {
	id    int
	name  string
	fn    *function
	block string // path of blocks inside fn
	line  int
	// single is true when there is one of it in a VM: declared by the file itself
	// and not in a loop.
	single bool
	init   string
	alias  *place // what it is another name of, for good
	takers map[string]bool
}

// statement is a top-level line that initialises nothing.
type statement struct {
	text string
	line int
}

// slot is one thing that top-level lines give a value: a local, a global, a
// field by its key path.
type slot struct {
	place place
	text  string // of everything assigned to it, in order
	line  int
	// table is true when the last initialiser is a constructor: its fields are
	// slots of their own.
	table bool
	fns   []*function // functions that are a whole initialiser of it
	ref   *place      // set when the only initialiser is another place
	// constructed fields live and die with the constructor around them; others
	// are lines of their own.
	constructed bool
	// dynamic slots have a key that only running the line tells; place is then
	// the table, with the text of the key.
	dynamic bool
}

// Roots of places that are no local.
const (
	rootGlobal = -1
	rootModule = -2 // the value that the file returns
)

// place is a root and a path of keys below it.
type place struct {
	root int // a local's id, or one of the above
	keys []key
}

type keyKind byte

const (
	keyString  keyKind = 's'
	keyNumber  keyKind = 'n'
	keyBool    keyKind = 'b'
	keyMeta    keyKind = 'm' // the metatable
	keyDynamic keyKind = 'd'
)

type key struct {
	kind keyKind
	text string
	num  float64
}

func (k key) value() lua.LValue {
	switch k.kind {
	case keyString:
		return lua.LString(k.text)
	case keyNumber:
		return lua.LNumber(k.num)
	case keyBool:
		return lua.LBool(k.text == "true")
	}
	return lua.LNil
}

func (k key) id() string { return string(k.kind) + strconv.Quote(k.text) }

func (p place) with(k key) place {
	keys := make([]key, len(p.keys)+1)
	copy(keys, p.keys)
	keys[len(p.keys)] = k
	return place{root: p.root, keys: keys}
}

func (p place) parent() place { return place{root: p.root, keys: p.keys[:len(p.keys)-1]} }

func (p place) last() key { return p.keys[len(p.keys)-1] }

// id is p as a map key, its root written as root.
func (p place) id(root string) string {
	var b strings.Builder
	b.WriteString(root)
	for _, k := range p.keys {
		b.WriteByte(' ')
		b.WriteString(k.id())
	}
	return b.String()
}

func (p place) key() string { return p.id(strconv.Itoa(p.root)) }

// describe writes p as the source would.
func (s *Shape) describe(p place) string {
	var b strings.Builder
	keys := p.keys
	switch {
	case p.root >= 0:
		b.WriteString(s.locals[p.root].name)
	case p.root == rootModule:
		b.WriteString(s.moduleName())
	case len(keys) > 0:
		b.WriteString(keys[0].text)
		keys = keys[1:]
	default:
		b.WriteString("_G")
	}
	for _, k := range keys {
		b.WriteString(k.describe())
	}
	return b.String()
}

func (k key) describe() string {
	switch {
	case k.kind == keyMeta:
		return "(metatable)"
	case k.kind == keyString && isIdentifier(k.text):
		return "." + k.text
	case k.kind == keyString:
		return "[" + strconv.Quote(k.text) + "]"
	}
	return "[" + k.text + "]"
}

func (s *Shape) moduleName() string {
	if s.module != nil {
		return s.module.name
	}
	return "return"
}

// place is the slot that a local itself is.
func (s *Shape) placeOf(l *local) place {
	if l == s.module {
		return place{root: rootModule}
	}
	return place{root: l.id}
}
