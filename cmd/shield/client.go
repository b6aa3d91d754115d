package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdio "io"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/play"
	"shield/runtime/shield"
)

// clientFlags are the flags of `shield client`.
type clientFlags struct {
	gateway  string
	config   string
	insecure bool
	ca       string
	expect   []string
	timeout  time.Duration
	linger   time.Duration
	count    int
}

func newClient(io *IO) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "client [ADDRESS]",
		Short:   "connect to a gateway as a player does",
		GroupID: groupAct,
		Example: "  shield client                                        # a prompt; help lists what can be typed\n" +
			"  echo 'auth.login {\"name\":\"ann\"}' | shield client --expect auth.login_ok\n" +
			"  shield client --count 100 --json < play.txt          # {n} in a line is the client's number",
		Long: "Sends frames by the names of rpc.yaml and prints every push as a line.\n\n" +
			"Each line is a route's name and a JSON body, or: expect NAME [JSON], expect-close [REASON],\n" +
			"sleep DURATION, reconnect, quit. ADDRESS is HOST:PORT, tcp://, tls://, ws:// or wss://; without\n" +
			"it the running project is asked for its gateway.\n\n" +
			"The gateway answers a frame that it refuses with silence, as it would a hostile client: a wrong body,\n" +
			"no login, too many in a second. Nor is a client told that a handler threw. Where the project's control\n" +
			"API can be reached, what its log says of the client's own frames is shown here; shield logs has the rest.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			cfg, err := clientConfig(cmd.Context(), io, f, a)
			if err != nil {
				return err
			}
			return playWith(cmd.Context(), io, f, cfg)
		},
		ValidArgsFunction: complete(io),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.gateway, "gateway", "", "which gateway of the project, by name or node:name")
	fl.StringVar(&f.config, "config", "", "a file that lies over shield.yaml, as for shield run")
	fl.BoolVar(&f.insecure, "insecure", false, "tls and wss: accept any certificate")
	fl.StringVar(&f.ca, "ca", "", "tls and wss: a PEM file of certificates to trust instead of the system's")
	cmd.MarkFlagsMutuallyExclusive("ca", "insecure")
	fl.StringArrayVar(&f.expect, "expect", nil, "after the lines of the input: wait for this push, NAME [JSON]")
	durationFlag(cmd, &f.timeout, "timeout", 5*time.Second, "how long expect waits")
	durationFlag(cmd, &f.linger, "linger", 500*time.Millisecond, "at the end of the input: how long without a push before leaving")
	fl.IntVar(&f.count, "count", 1, "how many clients do the same")
	return cmd
}

// playWith runs one client, or a crowd.
func playWith(ctx context.Context, io *IO, f clientFlags, cfg play.Config) error {
	feed := play.NewFeed()
	s := play.Script{Config: cfg, Lines: feed, Expect: f.timeout, Linger: f.linger, Routes: func() (*shield.RPCTable, error) {
		project, err := clientProject(io, f.config)
		if err != nil {
			return nil, err
		}
		return project.Table(), nil
	}}
	if io.InTTY && io.OutTTY && !io.JSON && f.count == 1 && len(f.expect) == 0 {
		return playByHand(ctx, io, s, feed)
	}
	in := io.Input(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { readScript(in, f, feed) })
	defer in.Leave(&reading)
	out := &events{io: io, crowd: f.count > 1}
	s.Tell = out.tell
	if f.count > 1 {
		return playCrowd(ctx, io, f, s)
	}
	defer tellRefusals(ctx, io, &s)()
	return playedOut(s.Run(ctx))
}

// readScript hands the input on, then the --expect flags.
func readScript(in stdio.Reader, f clientFlags, feed *play.Feed) {
	err := feed.ReadAll(in)
	for _, e := range f.expect {
		feed.Add("expect " + e)
	}
	if err != nil {
		err = fmt.Errorf("read the lines: %w", err)
	}
	feed.End(err)
}

// playedOut gives how a script ended its exit code.
func playedOut(err error) error {
	var closed *play.Closed
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, play.ErrLine):
		return fail(exitUsage, "shield client --help", "%w", err)
	case errors.Is(err, play.ErrExpect):
		return fail(exitTimeout, "", "%w", err)
	case errors.As(err, &cert):
		return fail(exitFailed, "shield client --ca FILE, or --insecure", "the gateway's certificate is not trusted: %w", err)
	case errors.As(err, &op) && op.Op == "dial":
		return fail(exitNobody, "start one: shield dev", "no gateway answers: %w", err)
	case errors.As(err, &closed):
		return fail(exitFailed, "shield logs --service gateway", "%w", err)
	}
	return err
}
