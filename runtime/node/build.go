package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/config"
	"shield/runtime/discovery/redis"
	"shield/runtime/gateway"
	"shield/runtime/luaapi"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/session"
	"shield/runtime/shield"
)

// New builds a node and binds its gateways; nothing runs yet. It owns cfg.Conn
// from here on, also when it fails. Stop frees a node that never started.
func New(cfg Config) (_ *Node, err error) {
	if cfg.Project == nil {
		err = errors.New("make a node: node.Config has no Project (config.Load and config.Default give one)")
		if cfg.Conn != nil {
			err = errors.Join(err, cfg.Conn.Close())
		}
		return nil, err
	}
	n := &Node{cfg: cfg, id: cfg.Project.Cluster.NodeID, log: cfg.Log, born: time.Now()}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if n.cfg.Listen == nil {
		n.cfg.Listen = net.Listen
	}
	if n.id == "" {
		n.id = shield.LocalNode
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			err = errors.Join(err, n.Stop(ctx))
			if n.cluster == nil && cfg.Conn != nil {
				cfg.Conn.Close()
			}
		}
	}()
	n.routes.Store(cfg.Project.Table())
	n.project.Store(cfg.Project)
	if cfg.Project.Cluster.NodeID != "" {
		if err := n.buildCluster(); err != nil {
			return nil, err
		}
	}
	for _, g := range cfg.Project.GatewaysOn(n.id) {
		if err := n.buildGateway(g); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *Node) buildCluster() error {
	c := n.cfg.Project.Cluster
	if c.Auth.Type == "mtls" {
		return shield.Errorf(shield.ModuleUnavailable, "cluster.auth.type mtls is not in this release; use token")
	}
	epoch, err := cluster.NextEpoch(time.Now(), n.cfg.Epochs)
	if err != nil {
		return err
	}
	tr, err := n.transport()
	if err != nil {
		return fmt.Errorf("open the cluster's transport: %w", err)
	}
	cfg := clusterOf(c)
	if n.cfg.Sim != nil {
		cfg.Jitter = n.cfg.Sim.Jitter
	}
	cfg.Epoch, cfg.Transport, cfg.Local = epoch, tr, edge{n}
	cfg.Log, cfg.OnEvent = n.log, n.onMember
	if c.Discovery.Type == "redis" {
		if cfg.Discovery, err = redis.New(redisOf(c.Discovery)); err != nil {
			return errors.Join(err, tr.Close())
		}
	}
	if n.cluster, err = cluster.New(cfg); err != nil {
		return errors.Join(err, tr.Close())
	}
	return nil
}

// buildServices makes the runtime of the services; the epoch is final by now.
func (n *Node) buildServices() error {
	p := n.cfg.Project
	cfg := service.Config{
		Node:  n.id,
		Epoch: n.Epoch(),
		Lua: luavm.Config{
			Files:      n.cfg.Files,
			ModulePath: p.Lua.ModulePath,
			AllowOS:    p.Lua.Sandbox.AllowOS,
			AllowIO:    p.Lua.Sandbox.AllowIO,
			FS:         n.cfg.FS,
			Getenv:     n.cfg.Getenv,
		},
		API:     luaapi.New(),
		Log:     n.log,
		Limits:  limitsOf(p.Limits),
		Clients: edge{n},
		Routes:  n.routes.Load,
		OnName:  n.onName,
		OnDead:  n.onDead,
		Dev:     n.cfg.Dev,
		Seed:    n.cfg.Seed,
	}
	if n.cfg.Sim != nil {
		n.cfg.Sim.services(&cfg)
	}
	if n.cluster != nil { // a nil *Cluster in an interface would not be nil
		cfg.Remote = n.cluster
	}
	services, err := service.New(cfg)
	if err != nil {
		return err
	}
	n.services.Store(services)
	services.SetClockOffset(n.ClockShift()) // it may have been set while there were none
	return nil
}

func (n *Node) buildGateway(g config.Gateway) error {
	cfg := gateway.Config{
		ID:       shield.MakeGatewayID(n.id, g.Name),
		Auth:     g.Auth,
		Routes:   n.routes.Load(),
		Protocol: protocolOf(g.Network.Protocol),
		Limits:   limitsOfGateway(g.Network),
		Router:   edge{n},
		Log:      n.log,
		Changed:  func(shield.SessionID) { n.changed(PartSessions) },
	}
	if n.cfg.Sim != nil {
		cfg.Rand = n.cfg.Sim.Rand
	}
	if n.cfg.Dev {
		cfg.Oracle = session.NewOracle(func(breach string) {
			n.log.Error(breach, "service", "oracle", "event", "breach")
		})
	}
	var err error
	if cfg.Listeners, err = n.listeners(g.Network); err != nil {
		return fmt.Errorf("gateway %s: %w", g.Name, err)
	}
	gw, err := gateway.New(cfg)
	if err != nil {
		return err
	}
	n.gateways = append(n.gateways, gw)
	return nil
}

// listeners binds every address of a gateway, or none.
func (n *Node) listeners(nw config.Network) (all []gateway.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				l.Net.Close()
			}
		}
	}()
	var cert *tls.Config
	if nw.Cert != "" {
		files, err := loadCertificate(n.path(nw.Cert), n.path(nw.Key), n.log)
		if err != nil {
			return nil, err
		}
		cert = &tls.Config{GetCertificate: files.get, MinVersion: tls.VersionTLS12}
	}
	if nw.QUIC != "" {
		return nil, shield.Errorf(shield.ModuleUnavailable, "network.quic is not in this release; use tcp, tls, ws or wss")
	}
	for _, l := range []struct {
		address string
		is      gateway.Listener
	}{
		{nw.TCP, gateway.Listener{Transport: gateway.TCP}},
		{nw.TLS, gateway.Listener{Transport: gateway.TLS, TLS: cert}},
		{nw.WS, gateway.Listener{Transport: gateway.WebSocket, Path: nw.WSPath, Origins: nw.WSOrigins}},
		{nw.WSS, gateway.Listener{Transport: gateway.WebSocket, TLS: cert, Path: nw.WSPath, Origins: nw.WSOrigins}},
	} {
		if l.address == "" {
			continue
		}
		if l.is.Net, err = n.cfg.Listen("tcp", l.address); err != nil {
			return all, err
		}
		all = append(all, l.is)
	}
	return all, nil
}

func (n *Node) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(n.cfg.Project.Dir, p)
}
