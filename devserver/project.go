package devserver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/shield"
)

// saved makes a saved shield.yaml live as far as that can be: services that
// differ start afresh, and of the rest it says what needs a restart, where the
// file was just saved. A bad file changes nothing, and the error says why.
func (r *reloading) saved(now bool) error {
	log := r.s.log.With("service", "reload", "event", "reload")
	if r.s.cfg.Mode == control.ModeRun {
		log.Warn("shield.yaml changed; restart this node to make that live")
		return nil
	}
	next, err := config.Load(config.Options{Dir: r.s.cfg.Project.Dir, Environ: r.s.cfg.Environ, Dev: true, Nodes: len(r.s.members)})
	if err != nil {
		return err
	}
	if len(next.Services) == 0 && len(r.project().Services) > 0 {
		// A file that is being written, more likely than a wish.
		return errors.New("shield.yaml: there are no services in it any more; to run none, restart `shield dev`")
	}
	changed := differs(r.project(), next)
	var errs []error
	for _, m := range r.s.members {
		errs = append(errs, r.respec(m, next))
		m.takeServices(next)
	}
	// What is compared with next time: the services are live now, the rest is not.
	is := r.project().Clone()
	is.Services, is.Limits = next.Services, next.Limits
	r.mu.Lock()
	r.is = is
	r.mu.Unlock()
	if now && len(changed) > 0 {
		log.Warn("shield.yaml: " + strings.Join(changed, ", ") + " changed; restart `shield dev` to make that live")
	}
	return errors.Join(errs...)
}

// project is what runs, as far as reloads have changed it.
func (r *reloading) project() *config.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.is
}

// respec brings one node's services up to a new shield.yaml.
func (r *reloading) respec(m *member, next *config.Config) error {
	log := r.s.cfg.Log.Logger(m.id).With("service", "reload", "event", "reload")
	n, ok := m.running()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), respecTime)
	defer cancel()
	d, err := n.Respec(ctx, next)
	for _, what := range []struct {
		names []shield.Name
		text  string
	}{
		{d.Restarted, "started afresh"}, {d.Started, "started"}, {d.Stopped, "stopped"}, {d.Later, "changed, from the next spawn on"},
	} {
		if len(what.names) > 0 {
			log.Info(fmt.Sprintf("shield.yaml: %s %s", joined(what.names), what.text))
		}
	}
	if err != nil {
		return partly{fmt.Errorf("%s: %w", m.id, err)}
	}
	return nil
}

// respecTime bounds how long the services of one node may take to start afresh.
const respecTime = 15 * time.Second

func joined(names []shield.Name) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = string(n)
	}
	return strings.Join(all, ", ")
}

// differs names the blocks that only a restart makes live: gateways by name,
// everything else by key.
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
	add("control", old.Control, next.Control)
	add("shutdown", old.Shutdown, next.Shutdown)
	add("dev", old.Dev, next.Dev)
	add("cluster", old.Cluster, next.Cluster)
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
