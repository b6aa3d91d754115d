package service

import (
	"time"

	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// GoService is a service written in Go. It has the same mailbox, names, calls
// and limits as one in Lua: at most one goroutine is inside it, and it may wait
// only through its GoContext, which lets the next message in meanwhile.
type GoService interface {
	Init(ctx *GoContext, args map[string]any) error
	// Handle answers a message. Values are detached: keep or change them freely.
	Handle(ctx *GoContext, method string, args []lua.LValue) ([]lua.LValue, error)
	// Shutdown may wait, as long as ctx.Deadline allows.
	Shutdown(ctx *GoContext, reason string)
	// Exit is the last call; it may not wait.
	Exit(reason string)
}

// GoContext is a Go service's way to the runtime for the length of one turn.
type GoContext struct{}

// Sender is who sent the message; zero when no service did.
func (c *GoContext) Sender() shield.Handle { return shield.Handle{} }

// Deadline is what is left of the caller's deadline; ok is false without one.
func (c *GoContext) Deadline() (left time.Duration, ok bool) { return 0, false }
