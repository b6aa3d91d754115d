// Package redis lets nodes find each other through a Redis server
// (cluster.discovery.type: redis).
//
// Each node keeps a hash "prefix:node" with the fields addr, status, started_at
// and last_heartbeat, which expires by itself, and its id in the set "prefix".
// Times are RFC 3339 in UTC. A scan takes ids out of the set whose hash has
// expired. The connection is made at the first request, so a server that is down
// fails requests and nothing else. A Backend is safe for concurrent use and
// starts no goroutines of its own.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"shield/runtime/cluster"
	"shield/runtime/shield"
)

// Config is the block cluster.discovery. Zero means the default.
type Config struct {
	Host     string // 127.0.0.1
	Port     int    // 6379
	Username string // for servers with ACLs
	Password string
	DB       int
	Prefix   string        // shield:nodes
	TTL      time.Duration // 10 s
}

// Backend satisfies cluster.Discovery.
type Backend struct {
	cfg    Config
	client *redis.Client
}

var _ cluster.Discovery = (*Backend)(nil)

// go-redis logs through a package variable, to stderr unless it is set. What
// matters comes back as errors, and those are logged by the cluster.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// New makes a Backend without touching the network.
func New(cfg Config) (*Backend, error) {
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	if cfg.Port == 0 {
		cfg.Port = 6379
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "shield:nodes"
	}
	if cfg.TTL == 0 {
		cfg.TTL = 10 * time.Second
	}
	if cfg.TTL < time.Second {
		return nil, fmt.Errorf("cluster.discovery.ttl_seconds: %v is less than a second", cfg.TTL)
	}
	quiet()
	return &Backend{cfg: cfg, client: redis.NewClient(&redis.Options{
		Addr:     net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)),
		Username: cfg.Username, Password: cfg.Password, DB: cfg.DB,
		// Every request ends with its context, which the cluster bounds, and is
		// tried again by the cluster, not by the client.
		ContextTimeoutEnabled:    true,
		DialTimeout:              2 * time.Second,
		DialerRetries:            1,
		MaxRetries:               -1,
		PoolSize:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}, nil
}

func (b *Backend) key(node shield.NodeID) string { return b.cfg.Prefix + ":" + string(node) }

// Announce registers self or renews its registration, in one transaction.
func (b *Backend) Announce(ctx context.Context, self cluster.Candidate) error {
	key := b.key(self.Node)
	_, err := b.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, key,
			"addr", self.Addr,
			"status", "online",
			"started_at", self.StartedAt.UTC().Format(time.RFC3339),
			"last_heartbeat", time.Now().UTC().Format(time.RFC3339Nano))
		p.PExpire(ctx, key, b.cfg.TTL)
		p.SAdd(ctx, b.cfg.Prefix, string(self.Node))
		return nil
	})
	return b.explain(err)
}

// Scan lists the nodes whose hash has not expired and takes the others out of
// the set.
func (b *Backend) Scan(ctx context.Context) ([]cluster.Candidate, error) {
	ids, err := b.client.SMembers(ctx, b.cfg.Prefix).Result()
	if err != nil {
		return nil, b.explain(err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	hashes := make([]*redis.MapStringStringCmd, len(ids))
	_, err = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			hashes[i] = p.HGetAll(ctx, b.key(shield.NodeID(id)))
		}
		return nil
	})
	if err != nil {
		return nil, b.explain(err)
	}
	var list []cluster.Candidate
	var gone []string
	for i, id := range ids {
		h := hashes[i].Val()
		if len(h) == 0 {
			gone = append(gone, id)
			continue
		}
		started, _ := time.Parse(time.RFC3339, h["started_at"]) // for people only; another writer may leave it out
		list = append(list, cluster.Candidate{Node: shield.NodeID(id), Addr: h["addr"], StartedAt: started})
	}
	for _, id := range gone {
		if err := b.removeGone(ctx, id); err != nil {
			return nil, b.explain(err)
		}
	}
	return list, nil
}

// removeGone takes id out of the set unless its node has registered again in
// this very moment.
func (b *Backend) removeGone(ctx context.Context, id string) error {
	key := b.key(shield.NodeID(id))
	err := b.client.Watch(ctx, func(tx *redis.Tx) error {
		n, err := tx.Exists(ctx, key).Result()
		if err != nil || n > 0 {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.SRem(ctx, b.cfg.Prefix, id)
			return nil
		})
		return err
	}, key)
	if errors.Is(err, redis.TxFailedErr) {
		return nil // it has registered again
	}
	return err
}

// Withdraw deletes the registration of node.
func (b *Backend) Withdraw(ctx context.Context, node shield.NodeID) error {
	_, err := b.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, b.key(node))
		p.SRem(ctx, b.cfg.Prefix, string(node))
		return nil
	})
	return b.explain(err)
}

// Close frees the connections.
func (b *Backend) Close() error { return b.client.Close() }

func (b *Backend) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redis at %s: %w", b.client.Options().Addr, err)
}
