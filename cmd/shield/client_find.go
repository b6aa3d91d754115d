package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/play"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// clientConfig finds out where to connect and what is spoken there: the address
// from the running project unless it is given, the rest from its files.
func clientConfig(ctx context.Context, io *IO, f clientFlags, a []string) (play.Config, error) {
	if f.count < 1 {
		return play.Config{}, fail(exitUsage, "shield client --count 10", "--count %d: want 1 or more", f.count)
	}
	project, err := clientProject(io, f.config)
	if err != nil {
		return play.Config{}, err
	}
	address, name := "", gatewayName(f.gateway)
	if len(a) == 1 {
		address = a[0]
	} else if address, name, err = runningGateway(ctx, io, project, f.gateway); err != nil {
		return play.Config{}, err
	}
	u, err := play.ParseAddress(address)
	if err != nil {
		return play.Config{}, fail(exitUsage, "shield client 127.0.0.1:7001", "%w", err)
	}
	trust, err := clientTLS(io, f)
	if err != nil {
		return play.Config{}, err
	}
	gw, err := gatewayOf(project, name, u)
	if err != nil {
		return play.Config{}, err
	}
	if gw.Network.WSPath != "" && u.Path == "" && strings.HasPrefix(u.Scheme, "ws") {
		u.Path = gw.Network.WSPath
	}
	cfg := clientOf(project, gw, u.String())
	cfg.TLS = trust
	return cfg, nil
}

// clientOf is how a client speaks to a gateway of project that listens at
// address.
func clientOf(project *config.Config, gw *config.Gateway, address string) play.Config {
	p := gw.Network.Protocol
	return play.Config{
		Address: address,
		Format: wire.Client{RouteIDBytes: p.Envelope.RouteIDBytes, LengthBytes: p.Envelope.LengthBytes,
			LittleEndian: p.Envelope.Endian == "little", MaxFrameSize: p.Envelope.MaxFrameSize},
		Codec:  p.Body.Provider,
		Routes: project.Table(),
	}
}

// clientTLS decides which certificates are trusted.
func clientTLS(io *IO, f clientFlags) (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: f.insecure} //nolint:gosec // the flag says so
	if f.ca == "" {
		return c, nil
	}
	pem, err := os.ReadFile(inDir(io, f.ca))
	if err != nil {
		return nil, fail(exitUsage, "", "--ca: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fail(exitUsage, "", "--ca %s: no PEM certificate is in it", f.ca)
	}
	return c, nil
}

// clientProject reads the project for its gateways and routes. What only a node
// needs may be missing here, as it may for shield dev, with any number of nodes.
func clientProject(io *IO, overlay string) (*config.Config, error) {
	opts, err := projectOptions(io, overlay)
	if err != nil {
		return nil, err
	}
	if cfg, err := config.Load(opts); err == nil {
		return cfg, nil // its warnings are those of whoever runs it
	}
	opts.Dev, opts.Nodes = true, mostNodes
	return loadProject(io, opts)
}

// gatewayName is the name in shield.yaml of what --gateway says.
func gatewayName(s string) string {
	if _, name, ok := strings.Cut(s, ":"); ok {
		return name
	}
	return s
}

// statuses asks what runs here. Where several nodes of shield run do, a game
// client may come in by any of them: all are asked, and those that do not answer
// are no reason to give up.
func statuses(ctx context.Context, io *IO) (nodes []control.NodeStatus, err error) {
	c, err := attach(ctx, io)
	var several *client.AmbiguousError
	if errors.As(err, &several) {
		for _, e := range several.Endpoints {
			one := client.New(e)
			if s, err := one.Status(ctx); err == nil {
				nodes = append(nodes, s.Nodes...)
			}
			one.Close()
		}
		return nodes, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s, err := c.Status(ctx)
	return s.Nodes, said(err)
}

// runningGateway asks the running project for a gateway's address. Plain TCP is
// taken first.
func runningGateway(ctx context.Context, io *IO, project *config.Config, want string) (address, name string, err error) {
	nodes, err := statuses(ctx, io)
	if err != nil {
		return "", "", err
	}
	var known []string
	for _, n := range nodes {
		for _, g := range n.Gateway {
			known = append(known, string(g.Gateway))
			if want != "" && string(g.Gateway) != want && g.Gateway.Name() != want {
				continue
			}
			if addr := plainest(g.Addresses); addr != "" && address == "" {
				address, name = addr, g.Gateway.Name()
			}
		}
	}
	switch {
	case address != "":
		return address, name, nil
	case len(known) == 0 && len(project.Gateways) > 0:
		g := project.Gateways[0]
		where := "on every node"
		if len(g.Nodes) > 0 {
			where = fmt.Sprintf("on %v", g.Nodes)
		}
		return "", "", fail(exitFailed, "shield nodes", "no gateway runs just now; shield.yaml has %s %s", g.Name, where)
	case len(known) == 0:
		return "", "", fail(exitFailed, "add gateways: to shield.yaml", "the running project has no gateway")
	}
	msg := fmt.Sprintf("no gateway %q with an address", want)
	if near := shield.Nearest(want, known); near != "" {
		msg += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return "", "", fail(exitUsage, "shield client --gateway "+known[0], "%s; gateways: %s", msg, strings.Join(known, " "))
}

// plainest picks an address this client can dial.
func plainest(addresses []string) string {
	for _, scheme := range []string{"tcp://", "ws://", "tls://", "wss://"} {
		for _, a := range addresses {
			if strings.HasPrefix(a, scheme) {
				return a
			}
		}
	}
	return ""
}

// gatewayOf finds the gateway in shield.yaml that an address belongs to: by its
// name, else by its address, else the only one.
func gatewayOf(project *config.Config, name string, u *url.URL) (*config.Gateway, error) {
	var names []string
	for i := range project.Gateways {
		g := &project.Gateways[i]
		names = append(names, g.Name)
		if name != "" && g.Name == name {
			return g, nil
		}
		for _, listen := range []string{g.Network.TCP, g.Network.TLS, g.Network.WS, g.Network.WSS} {
			if name == "" && listen != "" && samePort(listen, u.Host) {
				return g, nil
			}
		}
	}
	switch {
	case name == "" && len(project.Gateways) == 1:
		return &project.Gateways[0], nil
	case len(names) == 0:
		return nil, fail(exitInvalid, "add gateways: to shield.yaml", "shield.yaml has no gateway, so there is no protocol to speak")
	case name == "":
		return nil, fail(exitUsage, "shield client --gateway "+names[0], "which gateway's protocol is spoken at %s? There are %s", u.Host, strings.Join(names, " "))
	}
	return nil, fail(exitUsage, "shield client --gateway "+names[0], "shield.yaml has no gateway %q; it has %s", name, strings.Join(names, " "))
}

func samePort(a, b string) bool {
	_, pa, errA := net.SplitHostPort(a)
	_, pb, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && pa == pb && pa != "0"
}
