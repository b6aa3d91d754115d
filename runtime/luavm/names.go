package luavm

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// What an instruction of gopher-lua says of the value in a register: where it
// came from, in the words of the source. It is what Lua's own ldebug.c does,
// for gopher-lua's instructions.

// The instructions that are looked at beside those of fresh.go.
const (
	opSetGlobal = 9
	opLT        = 27
	opLE        = 28
	opTest      = 29
	opClosure   = 39
)

// setsA marks the instructions that change register A and no other.
var setsA = func() (sets [opCount]bool) {
	for _, op := range []int{opMove, opLoadK, opLoadBool, opGetUpval, opGetGlobal, opGetTable, opGetTableKS, opNewTable,
		opUnm, opUnm + 1, opLen, opConcat, opTestSet, opClosure} {
		sets[op] = true
	}
	for op := opAdd; op <= opPow; op++ {
		sets[op] = true
	}
	return sets
}()

func operandBx(inst uint32) int { return int(inst & 0x3ffff) }

// origin is where a value came from.
type origin struct {
	kind string // local, upvalue, global, field, method; "" = a value without a name
	name string // for a field its whole path, as far as it has names
}

func (o origin) String() string {
	if o.kind == "" {
		return ""
	}
	return o.kind + " '" + o.name + "'"
}

// maxPath is how long a path in an error may be, in names.
const maxPath = 8

// originOf says where the value in a register came from, as the instruction at
// pc of p finds it.
func originOf(p *lua.FunctionProto, pc, reg, depth int) origin {
	name, began, sure := localAt(p, pc, reg)
	at, known := lastSet(p, pc, reg)
	if name != "" && (sure || at < began) {
		return origin{"local", name}
	}
	if !known || at < 0 {
		return origin{}
	}
	switch inst := p.Code[at]; inst >> 26 {
	case opMove:
		if b := operandB(inst); b < operandA(inst) && depth < maxPath {
			return originOf(p, at, b, depth+1)
		}
	case opGetUpval:
		if b := operandB(inst); b < len(p.DbgUpvalues) {
			return origin{"upvalue", p.DbgUpvalues[b]}
		}
	case opGetGlobal:
		return origin{"global", constantText(p, operandBx(inst))}
	case opGetTable, opGetTableKS:
		if key, ok := writtenKey(p, at, operandC(inst)); ok {
			return origin{"field", pathText(originOf(p, at, operandB(inst), depth+1), key, depth)}
		}
	case opSelf:
		if key, ok := writtenKey(p, at, operandC(inst)); ok && reg == operandA(inst) {
			return origin{"method", strings.Trim(key, ".")}
		}
	}
	return origin{}
}

// localAt gives the local that lives in a register at pc, and from where on. It
// is sure where the block lies open there: on the line a block ends on, the
// register may already hold something else.
func localAt(p *lua.FunctionProto, pc, reg int) (name string, began int, sure bool) {
	for _, l := range p.DbgLocals {
		if l.StartPc > pc {
			break
		}
		if pc >= l.EndPc {
			continue
		}
		if reg--; reg >= 0 {
			continue
		}
		if strings.HasPrefix(l.Name, "(") {
			return "", 0, false
		}
		last := 0
		for _, line := range p.DbgSourcePositions[l.StartPc:l.EndPc] {
			last = max(last, line)
		}
		return l.Name, l.StartPc, l.EndPc == len(p.Code) || p.DbgSourcePositions[pc] < last
	}
	return "", 0, false
}

// lastSet finds the instruction before pc that set a register; -1 is a
// parameter. It is not known where a jump may have passed it by.
func lastSet(p *lua.FunctionProto, pc, reg int) (at int, known bool) {
	at, known = -1, true
	jump := 0
	for i := 0; i < pc; i++ {
		inst := p.Code[i]
		a, sets := operandA(inst), false
		switch op := int(inst >> 26); op {
		case opMoveN: // the moves that belong to it follow as instructions of their own
			sets = reg == a
		case opLoadNil:
			sets = a <= reg && reg <= operandB(inst)
		case opSelf:
			sets = reg == a || reg == a+1
		case opCall, opTailCall, opVararg:
			sets = reg >= a
		case opTForLoop:
			sets = reg >= a+2
		case opForLoop, opForPrep:
			sets = a <= reg && reg <= a+3
		case opTest:
			sets = reg == a
		case opJmp:
			if to := i + 1 + operandBx(inst) - 0x3ffff>>1; to > i && to <= pc {
				jump = max(jump, to)
			}
		default:
			sets = op < opCount && setsA[op] && reg == a
		}
		if sets {
			at, known = i, i >= jump
		}
	}
	return at, known
}

// constantText is a constant that is a name.
func constantText(p *lua.FunctionProto, i int) string {
	if i < len(p.Constants) {
		return clip(p.Constants[i].String(), 60)
	}
	return "?"
}

// constantAt is the constant that an operand of the instruction at pc is, also
// where it was loaded into a register first, or nil.
func constantAt(p *lua.FunctionProto, pc, operand int) lua.LValue {
	if operand&bitRK == 0 {
		if name, _, _ := localAt(p, pc, operand); name != "" {
			return nil // a variable, whatever it was set to
		}
		at, known := lastSet(p, pc, operand)
		if !known || at < 0 || p.Code[at]>>26 != opLoadK {
			return nil
		}
		if i := operandBx(p.Code[at]); i < len(p.Constants) {
			return p.Constants[i]
		}
		return nil
	}
	if i := operand &^ bitRK; i < len(p.Constants) {
		return p.Constants[i]
	}
	return nil
}

// writtenKey is the key of an operand, as it is written behind a table.
func writtenKey(p *lua.FunctionProto, pc, operand int) (text string, ok bool) {
	switch k := constantAt(p, pc, operand).(type) {
	case lua.LString:
		if wordRE.MatchString(string(k)) {
			return "." + clip(string(k), 60), true
		}
		return `["` + clip(string(k), 60) + `"]`, true
	case lua.LNumber:
		return "[" + k.String() + "]", true
	}
	return "", false
}

// pathText is a key behind what its table is called.
func pathText(table origin, key string, depth int) string {
	if table.kind == "" || table.kind == "method" || depth >= maxPath {
		return strings.TrimPrefix(key, ".")
	}
	return table.name + key
}
