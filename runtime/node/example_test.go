package node_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"

	"shield/runtime/config"
	"shield/runtime/node"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

// ranking is a service in Go: as a Lua service it is entered by one goroutine at
// a time, so it needs no lock.
type ranking struct{ best int64 }

func (r *ranking) Init(*service.GoContext, service.GoArgs) error { return nil }

func (r *ranking) Handle(_ *service.GoContext, method string, args value.Payload) (value.Payload, error) {
	if method != "submit" {
		return value.Payload{}, shield.Errorf(shield.MethodNotFound, "ranking has no method %q", method)
	}
	score, _ := value.ToGo(args.At(0)).(int64)
	r.best = max(r.best, score)
	return value.PayloadOf(r.best)
}

func (r *ranking) Shutdown(*service.GoContext, string) {}
func (r *ranking) Exit(string)                         {}

// scripts are the project's Lua, here from memory; os.DirFS does as well.
type scripts map[string]string

func (s scripts) ReadFile(path string) ([]byte, error) {
	if text, ok := s[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

// A node inside another program, with a service in Go beside one in Lua.
func Example() {
	project := config.Default()
	project.Services = []config.Service{{Name: "game", Script: "game.lua", Instances: 1}}

	n, err := node.New(node.Config{
		Project: project,
		Log:     slog.New(slog.DiscardHandler),
		Files: scripts{"game.lua": `
local M = {}
function M.finish(ctx, score)
  local ok, best = shield.call("ranking", "submit", score)
  return "best so far: " .. best
end
return M`},
		Services: []service.Spec{{Name: "ranking", Instances: 1, Go: func() service.GoService { return &ranking{} }}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := n.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = n.Stop(ctx) }()

	for _, score := range []int{7, 3} {
		values, err := n.Call(ctx, "game", "finish", score)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(values.At(0))
	}
	// Output:
	// best so far: 7
	// best so far: 7
}
