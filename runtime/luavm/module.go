package luavm

import lua "github.com/yuin/gopher-lua"

// Code is one version of one file, compiled. All VMs that run that version
// share it; nothing in it changes.
type Code struct {
	Path   string
	Source string   // without a byte order mark, with \n at line ends
	Hash   [32]byte // of Source
	Proto  *lua.FunctionProto
}

// Module is one file that a VM has loaded.
type Module struct {
	Name     string // as it was first required; the script's own is its path
	Path     string
	Code     *Code
	Main     *lua.LFunction // the closure of the whole file
	Value    lua.LValue     // what it returned
	Requires []*Module      // directly, in order
}
