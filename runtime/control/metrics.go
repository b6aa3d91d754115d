package control

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shield/runtime/shield"
)

// newMetrics serves the host's rows as Prometheus text, from a registry of its
// own: two servers in one process don't meet.
func newMetrics(h Host) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&hostCollector{host: h}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// hostCollector asks the host when it is scraped and keeps nothing. Services
// are summed by module: one series for each player's service would drown the
// database.
type hostCollector struct{ host Host }

var (
	nodeState   = desc("node_state", "1 for the state in which the first node sees a node.", "node", "state")
	heartbeat   = desc("node_heartbeat_age_seconds", "Time since the last heartbeat of a node, as the first node sees it.", "node")
	sessions    = desc("node_sessions", "Client connections that a node's gateways own.", "node")
	events      = desc("node_events_total", "What the services of a node did, by kind.", "node", "kind")
	clusterMsgs = desc("cluster_events_total", "Counters of a node's cluster links, by kind.", "node", "kind")
	gatewayEvts = desc("gateway_events_total", "Frames, binds and refusals of a gateway, by kind.", "gateway", "kind")
	gatewaySess = desc("gateway_sessions", "Client connections of a gateway.", "gateway")
	modServices = desc("services", "Services that run a module's code, by state.", "node", "module", "state")
	modCalls    = desc("service_calls_total", "Messages handled by services that live, by module.", "node", "module")
	modErrors   = desc("service_errors_total", "Handler errors of services that live, by module.", "node", "module")
	modRestarts = desc("service_restarts_total", "Restarts of services that live, by module.", "node", "module")
	modMailbox  = desc("service_mailbox", "Messages that wait, by module.", "node", "module")
	modMemory   = desc("service_memory_bytes", "Estimated memory of VMs, by module.", "node", "module")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("shield_"+name, help, labels, nil)
}

// Describe sends nothing: which series there are is known at the scrape.
func (c *hostCollector) Describe(chan<- *prometheus.Desc) {}

func (c *hostCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	nodes, err := c.host.Nodes(firstNode(c.host))
	if err != nil {
		ch <- prometheus.NewInvalidMetric(nodeState, err)
	}
	for _, n := range nodes {
		if n.Node == "" {
			continue
		}
		gauge(nodeState, 1, string(n.Node), string(n.State))
		if n.HeartbeatAge != nil {
			gauge(heartbeat, float64(*n.HeartbeatAge)/1000, string(n.Node))
		}
	}
	status, err := c.host.Status()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(sessions, err)
	}
	for _, n := range status {
		id := string(n.Node)
		gauge(sessions, float64(n.Sessions), id)
		for kind, v := range n.Counters {
			count(events, v, id, kind)
		}
		if n.Cluster != nil && n.Cluster.ClusterCounters != nil {
			for kind, v := range clusterKinds(n.Cluster.ClusterCounters) {
				count(clusterMsgs, v, id, kind)
			}
		}
		for _, g := range n.Gateway {
			gauge(gatewaySess, float64(g.Sessions), string(g.Gateway))
			for kind, v := range g.Counters {
				count(gatewayEvts, v, string(g.Gateway), kind)
			}
		}
	}
	c.services(ch, gauge, count)
}

func clusterKinds(c *shield.ClusterCounters) map[string]int64 {
	return map[string]int64{"connections": c.Connections, "reconnects": c.Reconnects, "tx_messages": c.TxMessages,
		"rx_messages": c.RxMessages, "tx_heartbeats": c.TxHeartbeats, "rx_heartbeats": c.RxHeartbeats}
}

func (c *hostCollector) services(ch chan<- prometheus.Metric, gauge func(*prometheus.Desc, float64, ...string), count func(*prometheus.Desc, int64, ...string)) {
	rows, err := c.host.Services()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(modServices, err)
	}
	type module struct{ node, name string }
	type stateful struct {
		module
		state string
	}
	sums := make(map[module]*shield.ServiceRow)
	states := make(map[stateful]int)
	for _, r := range rows {
		m := module{string(r.Node), r.Module}
		states[stateful{m, string(r.State)}]++
		sum := sums[m]
		if sum == nil {
			sum = new(shield.ServiceRow)
			sums[m] = sum
		}
		sum.Calls += r.Calls
		sum.Errors += r.Errors
		sum.Restarts += r.Restarts
		sum.Mailbox += r.Mailbox
		sum.Memory += r.Memory
	}
	for s, n := range states {
		gauge(modServices, float64(n), s.node, s.name, s.state)
	}
	for m, sum := range sums {
		count(modCalls, sum.Calls, m.node, m.name)
		count(modErrors, sum.Errors, m.node, m.name)
		count(modRestarts, int64(sum.Restarts), m.node, m.name)
		gauge(modMailbox, float64(sum.Mailbox), m.node, m.name)
		gauge(modMemory, float64(sum.Memory), m.node, m.name)
	}
}
