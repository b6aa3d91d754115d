package cluster

import (
	"context"
	"time"

	"shield/runtime/shield"
)

// backendLimit bounds one request to a discovery backend.
const backendLimit = 2 * time.Second

// discover keeps this node registered and takes in what the backend lists.
func (c *Cluster) discover() {
	defer c.leaveDiscovery()
	self := Candidate{Node: c.cfg.Node, Addr: c.cfg.Advertise, StartedAt: c.cfg.Wall()}
	known := &listing{addrs: map[shield.NodeID]string{}}
	announce := time.NewTicker(c.cfg.AnnounceEvery)
	defer announce.Stop()
	scan := time.NewTicker(c.cfg.ScanEvery)
	defer scan.Stop()
	c.announce(self)
	c.scan(known)
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-announce.C:
			c.announce(self)
		case <-scan.C:
			c.scan(known)
		}
	}
}

func (c *Cluster) announce(self Candidate) {
	ctx, cancel := context.WithTimeout(c.ctx, backendLimit)
	defer cancel()
	c.backend("register this node with", c.cfg.Discovery.Announce(ctx, self))
}

// listing is what the last good scan told.
type listing struct {
	addrs  map[shield.NodeID]string
	failed time.Time // the last scan that failed
}

// scan compares the backend's list with the one before. A scan that failed
// changes nothing. A backend that was away has let registrations expire, which
// their owners are about to renew: until they had the time for it, nobody is
// taken for vanished.
func (c *Cluster) scan(known *listing) {
	ctx, cancel := context.WithTimeout(c.ctx, backendLimit)
	defer cancel()
	list, err := c.cfg.Discovery.Scan(ctx)
	if !c.backend("list the nodes of", err) {
		known.failed = time.Now()
		return
	}
	back := time.Since(known.failed) < 2*c.cfg.AnnounceEvery+c.cfg.ScanEvery
	now := map[shield.NodeID]string{}
	for _, cand := range list {
		if cand.Node != c.cfg.Node && shield.CheckName(string(cand.Node)) == nil && cand.Addr != "" {
			now[cand.Node] = cand.Addr
		}
	}
	c.ask(func() {
		for id, addr := range known.addrs {
			gone := now[id] == ""
			if now[id] != addr && !(gone && back) {
				c.vanished(id, addr, gone)
				delete(known.addrs, id)
			}
		}
		for id, addr := range now {
			if _, ok := known.addrs[id]; !ok {
				known.addrs[id] = addr
				c.addDialer(addr, id, false)
			}
		}
	})
}

// vanished handles a node that the backend no longer lists at addr: it is
// demoted once, and not dialled any more unless it is configured as well.
func (c *Cluster) vanished(id shield.NodeID, addr string, gone bool) {
	if d := c.own.dialers[addr]; d != nil && d.discovered {
		c.dropDialer(d)
	}
	if !gone {
		return
	}
	for _, m := range c.own.members.all {
		if m.id == id || m.id == "" && m.address == addr {
			c.move(m, onVanished, "discovery no longer lists it")
			return
		}
	}
}

// backend logs a failure of the discovery, and its end, at a civil rate.
func (c *Cluster) backend(what string, err error) bool {
	key := "discovery " + what
	if err == nil {
		if c.civil.settle(key) {
			c.log.Info("the discovery backend answers again")
		}
		return true
	}
	if c.ctx.Err() == nil {
		c.civil.warn(c.log, key, "can't "+what+" the discovery backend; peers that are known stay, new ones are not found", "reason", err.Error())
	}
	return false
}

func (c *Cluster) leaveDiscovery() {
	// c.ctx is over; a clean stop still takes the registration away, in bounded
	// time when the backend is down.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.cfg.Discovery.Withdraw(ctx, c.cfg.Node); err != nil {
		c.log.Warn("this node's registration could not be withdrawn; it expires by itself", "reason", err.Error())
	}
	c.closeDiscovery()
}

func (c *Cluster) closeDiscovery() {
	if c.cfg.Discovery == nil {
		return
	}
	if err := c.cfg.Discovery.Close(); err != nil {
		c.log.Warn("closing the discovery backend", "reason", err.Error())
	}
}
