package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

// look is a reading verb: rows of one topic as a table, as JSON, or followed.
type look[T any] struct {
	topic   control.Topic
	columns []Column[T]
	empty   string
	get     func(ctx context.Context, c *client.Client) ([]T, error)
	snap    func(*control.Snapshot) []T // its rows in what a watch keeps
	delta   func(*control.Delta) []T    // and in what changed
	key     func(T) string              // what a delta calls a row that is gone
	from    *shield.NodeID              // whose view; nil = the first node's
	keep    func(T) bool                // nil = all

	watch bool
	told  map[string]bool // rows that --watch --json has printed, and not as gone
}

// flags adds the flags that all reading verbs share.
func (l *look[T]) flags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVarP(&l.watch, "watch", "w", false, "go on with what changes; with --json one row a line")
	return cmd
}

func (l *look[T]) run(io *IO) func(*cobra.Command, []string) error {
	return attached(io, func(ctx context.Context, c *client.Client, _ []string) error {
		rows, err := l.get(ctx, c)
		if err != nil { // also of a watch: what is asked for may not exist
			return err
		}
		if l.watch {
			return l.follow(ctx, io, c)
		}
		rows = l.kept(rows)
		return Print(io, rows, used(rows, l.columns), l.empty)
	})
}

func (l *look[T]) kept(rows []T) []T {
	if l.keep == nil {
		return rows
	}
	var kept []T
	for _, r := range rows {
		if l.keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// optional columns are left out where no row has anything in them.
var optional = []string{"GATEWAYS", "REASON", "RELOAD", "CODE", "PLAYER"}

func used[T any](rows []T, columns []Column[T]) []Column[T] {
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool {
		return slices.Contains(optional, c.Head) && !slices.ContainsFunc(rows, func(r T) bool { return c.Cell(r) != "" })
	})
}

// gone is the line of --watch --json for a row that is no more.
type gone struct {
	Gone string `json:"gone"`
}

// follow prints until it is interrupted. People get the table again when
// something happened that they wait for; programs get every changed row.
func (l *look[T]) follow(ctx context.Context, io *IO, c *client.Client) error {
	req := client.WatchRequest{Topics: []control.Topic{l.topic}}
	if l.from != nil {
		req.From = *l.from
	}
	l.told = map[string]bool{}
	w := c.Watch(ctx, req)
	defer w.Close()
	var all control.Snapshot
	for u := range w.C {
		if u.Event == nil {
			if err := linkChanged(io, u); err != nil {
				return err
			}
			continue
		}
		all.Apply(*u.Event)
		if err := l.tell(io, u.Event, &all); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// linkChanged tells a person that what they see is old; a server that was never
// there, or refuses, ends the verb.
func linkChanged(io *IO, u client.Update) error {
	if u.Link != client.LinkStale {
		return nil
	}
	if shield.CodeOf(u.Err) != "" || u.Since.IsZero() {
		return u.Err
	}
	fmt.Fprintf(io.Err, "%s\n", io.PaintErr(Yellow, "stale: "+clean(u.Err.Error())+"; waiting for it to come back"))
	return nil
}

func (l *look[T]) tell(io *IO, ev *control.Event, all *control.Snapshot) error {
	switch {
	case ev.Kind == control.EventFailed:
		fmt.Fprintln(io.Err, clean(problem(ev.Error)))
		return nil
	case io.JSON && ev.Snapshot != nil:
		return l.lines(io, l.snap(all), l.missing(l.snap(all)))
	case io.JSON && ev.Delta != nil:
		return l.lines(io, l.delta(ev.Delta), ev.Delta.Gone)
	case ev.Snapshot != nil, ev.Delta != nil && ev.Delta.Notable:
		if ev.Delta != nil {
			fmt.Fprintf(io.Out, "\n%s\n", io.PaintOut(Faint, time.Now().Format(time.TimeOnly)))
		}
		rows := l.kept(l.snap(all))
		return Print(io, rows, used(rows, l.columns), l.empty)
	}
	return nil
}

// missing lists what was printed and is not in a snapshot: it went while nobody
// was attached.
func (l *look[T]) missing(rows []T) (names []string) {
	here := map[string]bool{}
	for _, r := range rows {
		here[l.key(r)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(l.told)) {
		if !here[name] {
			names = append(names, name)
		}
	}
	return names
}

// lines prints rows, and of the names that are gone those that were rows here.
func (l *look[T]) lines(io *IO, rows []T, names []string) error {
	for _, r := range l.kept(rows) {
		l.told[l.key(r)] = true
		if err := io.PrintJSON(r); err != nil {
			return err
		}
	}
	for _, n := range names {
		if !l.told[n] {
			continue
		}
		delete(l.told, n)
		if err := io.PrintJSON(gone{n}); err != nil {
			return err
		}
	}
	return nil
}

// paintNode colours a row of a node by its state.
func paintNode(r shield.NodeRow) Paint {
	switch {
	case r.State == shield.Online && r.Intent == shield.Draining, r.State == shield.Suspect, r.State == shield.Connecting:
		return Yellow
	case r.State == shield.Online:
		return Green
	default:
		return Red
	}
}

// stateOf is the word for a node's state, with its intent where that is news.
func stateOf(r shield.NodeRow) string {
	if r.Intent == shield.Draining {
		return string(r.State) + ", draining"
	}
	return string(r.State)
}

func number[N int | int64 | uint32 | uint64](n N) string { return fmt.Sprint(n) }
