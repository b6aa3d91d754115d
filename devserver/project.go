package devserver

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/shield"
)

// project compares a saved shield.yaml with what runs, and says what it takes
// to make the difference live. Nothing is changed by a bad one.
func (r *reloading) project() {
	log := r.s.log.With("service", "reload", "event", "reload")
	if r.s.cfg.Mode == control.ModeRun {
		log.Warn("shield.yaml changed; restart this node to make that live")
		return
	}
	next, err := config.Load(config.Options{Dir: r.s.cfg.Project.Dir, Environ: r.s.cfg.Environ, Dev: true, Nodes: len(r.s.members)})
	if err != nil {
		log.Error(strings.TrimRight(problemText(err), "\n") + "\nshield.yaml is refused; what runs stays as it is")
		return
	}
	changed := differs(r.s.cfg.Project, next)
	if len(changed) == 0 {
		log.Info("shield.yaml: nothing that runs is affected")
		return
	}
	log.Warn("shield.yaml: " + strings.Join(changed, ", ") + " changed; restart `shield dev` to make that live")
}

// differs names the blocks that are not what they were: services and gateways by
// name, everything else by key.
func differs(old, next *config.Config) []string {
	var changed []string
	add := func(name string, was, is any) {
		if !reflect.DeepEqual(was, is) {
			changed = append(changed, name)
		}
	}
	add("app", old.App, next.App)
	add("log", old.Log, next.Log)
	add("lua", old.Lua, next.Lua)
	add("limits", old.Limits, next.Limits)
	add("control", old.Control, next.Control)
	add("shutdown", old.Shutdown, next.Shutdown)
	add("dev", old.Dev, next.Dev)
	add("cluster", old.Cluster, next.Cluster)
	changed = append(changed, named("service", old.Services, next.Services, func(s config.Service) (shield.Name, config.Service) {
		s.Pos = config.Pos{}
		return s.Name, s
	})...)
	return append(changed, named("gateway", old.Gateways, next.Gateways, func(g config.Gateway) (string, config.Gateway) {
		g.Pos = config.Pos{}
		return g.Name, g
	})...)
}

func named[T any, K ~string](what string, old, next []T, key func(T) (K, T)) []string {
	was := map[K]T{}
	for _, t := range old {
		k, plain := key(t)
		was[k] = plain
	}
	var changed []string
	for _, t := range next {
		k, plain := key(t)
		before, ok := was[k]
		if !ok || !reflect.DeepEqual(before, plain) {
			changed = append(changed, fmt.Sprintf("%s %s", what, k))
		}
		delete(was, k)
	}
	for k := range was {
		changed = append(changed, fmt.Sprintf("%s %s (gone)", what, k))
	}
	slices.Sort(changed)
	return changed
}
