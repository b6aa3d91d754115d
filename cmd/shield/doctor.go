package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"shield/devserver"
	"shield/runtime/config"
)

// finding is one line of the doctor: ok, or what is wrong and how to mend it.
type finding struct {
	Check string `json:"check"`
	State string `json:"state"` // ok, warn, fail
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

func newDoctor(io *IO) *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		Short:   "check this machine: buffers, limits, ports, terminal",
		GroupID: groupMore,
		Example: "  shield doctor\n  shield doctor --json\n  shield doctor -C mygame             # with the ports of that project",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDoctor(cmd.Context(), io)
		},
	}
}

func runDoctor(ctx context.Context, io *IO) error {
	findings := []finding{udpBuffers("/proc/sys/net/core/"), fileWatches("/proc/sys/fs/inotify/"), openFiles(), terminal(io)}
	findings = append(findings, projectFindings(ctx, io)...)
	columns := []Column[finding]{
		{Head: "CHECK", Cell: func(f finding) string { return f.Check }},
		{Head: "STATE", Cell: func(f finding) string { return f.State }, Paint: paintFinding},
		{Head: "FOUND", Prose: true, Cell: func(f finding) string { return f.Text }},
	}
	if err := Print(io, findings, columns, ""); err != nil {
		return err
	}
	failed, first := 0, ""
	for _, f := range findings {
		if f.Fix != "" {
			io.Note("%s: %s", f.Check, f.Fix)
		}
		if f.State == "fail" {
			failed++
			if first == "" {
				first = f.Fix
			}
		}
	}
	if failed > 0 && io.JSON {
		return quiet(exitFailed)
	}
	if failed > 0 {
		return fail(exitFailed, first, "%d of %d checks failed", failed, len(findings))
	}
	return nil
}

func paintFinding(f finding) Paint {
	switch f.State {
	case "ok":
		return Green
	case "warn":
		return Yellow
	}
	return Red
}

// wantBuffer is what QUIC asks the system for; less costs throughput.
const wantBuffer = 7 << 20

func udpBuffers(dir string) finding {
	f := finding{Check: "udp buffers", State: "ok"}
	r, errR := procNumber(dir + "rmem_max")
	w, errW := procNumber(dir + "wmem_max")
	switch {
	case errR != nil || errW != nil:
		f.Text = "this system does not tell"
	case r < wantBuffer || w < wantBuffer:
		f.State = "warn"
		f.Text = fmt.Sprintf("receive %d, send %d bytes: links between nodes lose packets under load", r, w)
		f.Fix = fmt.Sprintf("sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", wantBuffer, wantBuffer)
	default:
		f.Text = fmt.Sprintf("receive %d, send %d bytes", r, w)
	}
	return f
}

func fileWatches(dir string) finding {
	f := finding{Check: "file watches", State: "ok"}
	watches, err := procNumber(dir + "max_user_watches")
	instances, err2 := procNumber(dir + "max_user_instances")
	switch {
	case err != nil || err2 != nil:
		f.Text = "this system does not tell"
	case watches < 8192 || instances < 64:
		f.State = "warn"
		f.Text = fmt.Sprintf("%d watches, %d instances: saves may be noticed late, by the slow poll", watches, instances)
		f.Fix = "sudo sysctl -w fs.inotify.max_user_watches=65536 fs.inotify.max_user_instances=256"
	default:
		f.Text = fmt.Sprintf("%d watches, %d instances", watches, instances)
	}
	return f
}

func procNumber(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

func terminal(io *IO) finding {
	f := finding{Check: "terminal", State: "ok"}
	switch {
	case !io.InTTY || !io.OutTTY:
		f.Text = "none: verbs print plain text, the console can't run here"
	case io.Getenv("TERM") == "" || io.Getenv("TERM") == "dumb":
		f.State, f.Text, f.Fix = "warn", fmt.Sprintf("TERM=%s: the console can't draw", io.Getenv("TERM")), "export TERM=xterm-256color"
	case io.Width < 60:
		f.State, f.Text, f.Fix = "warn", fmt.Sprintf("%d columns: the console needs 60", io.Width), "make the window wider"
	case !utf8Locale(io):
		f.State, f.Text, f.Fix = "warn", "the locale is not UTF-8: names may look broken", "export LC_ALL=C.UTF-8"
	default:
		f.Text = fmt.Sprintf("%s, %d columns, UTF-8", io.Getenv("TERM"), io.Width)
	}
	return f
}

func utf8Locale(io *IO) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := io.Getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// projectFindings checks the project around io.Dir, if there is one: its files,
// and whether its ports are free.
func projectFindings(ctx context.Context, io *IO) []finding {
	dir, ok := config.Find(io.Dir)
	if !ok {
		return []finding{{Check: "project", State: "ok", Text: "none here"}}
	}
	cfg, err := config.Load(config.Options{Dir: dir, Environ: io.Environ, Dev: true})
	var ps config.Problems
	if errors.As(err, &ps) {
		return []finding{{Check: "project", State: "fail", Text: plural(len(ps), "problem"), Fix: "shield check"}}
	}
	if err != nil {
		return []finding{{Check: "project", State: "fail", Text: err.Error()}}
	}
	out := []finding{{Check: "project", State: "ok", Text: cfg.App.Name}}
	ours := ourAddresses(ctx, io)
	for i := range cfg.Gateways {
		for _, l := range cfg.Gateways[i].Network.Listeners() {
			if ours[l.Address] {
				out = append(out, finding{Check: "port", State: "ok", Text: l.Transport + " " + l.Address + " serves this project right now"})
				continue
			}
			out = append(out, portFinding(ctx, l, fmt.Sprintf("gateways[%d].network.%s", i, l.Transport)))
		}
	}
	return out
}

// ourAddresses lists what the running project listens on; nothing where none runs.
func ourAddresses(ctx context.Context, io *IO) map[string]bool {
	nodes, err := statuses(ctx, io)
	if err != nil {
		return nil // whether something runs is not what is checked
	}
	ours := map[string]bool{}
	for _, n := range nodes {
		for _, g := range n.Gateway {
			for _, a := range g.Addresses {
				if u, err := url.Parse(a); err == nil {
					ours[u.Host] = true
				}
			}
		}
	}
	return ours
}

// portFinding tries to listen, and names who holds the port where that fails.
func portFinding(ctx context.Context, l config.Listener, key string) finding {
	f := finding{Check: "port", State: "ok", Text: l.Transport + " " + l.Address + " is free"}
	network := "tcp"
	var err error
	var lc net.ListenConfig
	if l.Transport == "quic" {
		network = "udp"
		var c net.PacketConn
		if c, err = lc.ListenPacket(ctx, network, l.Address); err == nil {
			err = c.Close()
		}
	} else {
		var c net.Listener
		if c, err = lc.Listen(ctx, network, l.Address); err == nil {
			err = c.Close()
		}
	}
	if err != nil {
		f.State, f.Text = "warn", devserver.BindError(network, l.Address, key, err).Error()
		f.Fix = "stop what holds it, or change " + key + " in " + config.FileName
	}
	return f
}
