package node

import (
	"shield/runtime/cluster"
	"shield/runtime/config"
	"shield/runtime/discovery/redis"
	"shield/runtime/gateway"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// What shield.yaml says, in the terms of the parts.

func limitsOf(l config.Limits) service.Limits {
	return service.Limits{
		MaxMailbox:      l.MaxMailbox,
		MaxCoroutines:   l.MaxCoroutines,
		MaxPendingCalls: l.MaxPendingCalls,
		MaxTimers:       l.MaxTimers,
		MaxForks:        l.MaxForkTasks,
		MaxMessageSize:  l.MaxMessageSize,
		MaxHandler:      l.MaxHandler,
		MaxMemory:       int64(l.MaxMemory),
		MaxCallDepth:    l.MaxCallDepth,
		MaxErrors:       l.MaxErrorsBeforePanic,
		CallTimeout:     l.CallTimeout,
		SpawnTimeout:    l.SpawnTimeout,
	}
}

func specOf(s config.Service) service.Spec {
	retries := s.Restart.MaxRetries
	if retries == 0 { // shield.yaml says 0 for ever
		retries = -1
	}
	spec := service.Spec{
		Name:      s.Name,
		Script:    s.Script,
		Instances: s.Instances,
		DependsOn: s.DependsOn,
		Restart: service.Restart{
			Policy:       service.Policy(s.Restart.Policy),
			InitialDelay: s.Restart.InitialDelay,
			MaxDelay:     s.Restart.MaxDelay,
			Multiplier:   s.Restart.Multiplier,
			MaxRetries:   retries,
		},
		Limits: limitsOf(s.Limits),
	}
	if s.Config != nil {
		spec.Config = s.Config
	}
	return spec
}

// specsOf lists the services of a node. A dependency on a service that runs on
// other nodes only orders nothing here.
func specsOf(c *config.Config, node shield.NodeID) []service.Spec {
	here := map[shield.Name]bool{}
	of := c.ServicesOn(node)
	for _, s := range of {
		here[s.Name] = true
	}
	specs := make([]service.Spec, 0, len(of))
	for _, s := range of {
		spec := specOf(s)
		spec.DependsOn = nil
		for _, d := range s.DependsOn {
			if here[d] {
				spec.DependsOn = append(spec.DependsOn, d)
			}
		}
		specs = append(specs, spec)
	}
	return specs
}

func clusterOf(c config.Cluster) cluster.Config {
	auth := cluster.Auth{
		Token:        c.Auth.Token,
		Previous:     c.Auth.PreviousToken,
		MaxClockSkew: c.Auth.MaxClockSkew,
	}
	if c.Auth.Type == "token" {
		auth.Mode = wire.AuthToken
	}
	return cluster.Config{
		Name:          c.Name,
		Node:          c.NodeID,
		Advertise:     c.Advertise,
		Peers:         c.Peers,
		Heartbeat:     c.HeartbeatInterval,
		Suspect:       c.SuspectTimeout,
		Offline:       c.OfflineTimeout,
		Removed:       c.RemovedTimeout,
		Auth:          auth,
		AnnounceEvery: c.Discovery.HeartbeatInterval,
		ScanEvery:     c.Discovery.ScanInterval,
	}
}

func redisOf(d config.Discovery) redis.Config {
	return redis.Config{Host: d.Host, Port: d.Port, Password: d.Password, DB: d.DB, Prefix: d.Prefix, TTL: d.TTL}
}

func protocolOf(p config.Protocol) gateway.Protocol {
	return gateway.Protocol{
		Name:         p.Name,
		Provider:     p.Body.Provider,
		RouteIDBytes: p.Envelope.RouteIDBytes,
		LengthBytes:  p.Envelope.LengthBytes,
		LittleEndian: p.Envelope.Endian == "little",
		MaxFrameSize: p.Envelope.MaxFrameSize,
	}
}

// limitsOfGateway keeps 0 for "no limit" where shield.yaml says so.
func limitsOfGateway(n config.Network) gateway.Limits {
	l := gateway.Limits{
		MaxConnections:   n.MaxConnections,
		MaxPerIP:         n.MaxPerIP,
		HandshakeTimeout: n.HandshakeTimeout,
		IdleTimeout:      n.IdleTimeout,
		SendQueue:        n.SendQueue,
		MaxDecodeErrors:  n.MaxDecodeErrors,
		Rate:             n.Rate,
		Burst:            n.Burst,
	}
	if l.IdleTimeout == 0 {
		l.IdleTimeout = -1
	}
	if l.Rate == 0 {
		l.Rate = -1
	}
	return l
}
