package control

import (
	"maps"
	"slices"

	"shield/runtime/shield"
)

// Whether two rows are the same is asked of every row, twice a second, for each
// watcher: reflection would cost ten times as much. A test fails when a row gets
// a field that these functions don't look at.
//
// What ages by itself (uptime_ms, idle_ms, age_ms) is not looked at. The notable
// functions look at what a person waits for; all else is merely counted.

func notableNode(a, b *shield.NodeRow) bool {
	return a.Node != b.Node || a.State != b.State || a.Intent != b.Intent || a.Epoch != b.Epoch || a.Address != b.Address ||
		a.Services != b.Services || a.Reason != b.Reason || a.RoutesBehind != b.RoutesBehind || !slices.Equal(a.Gateways, b.Gateways)
}

// sameNode lets an idle cluster be quiet: the age of a heartbeat follows from
// its time, and a round trip is never twice the same.
func sameNode(a, b *shield.NodeRow) bool {
	return !notableNode(a, b) && a.Sessions == b.Sessions && a.RoutesVersion == b.RoutesVersion && a.Self == b.Self &&
		equal(a.LastHeartbeat, b.LastHeartbeat) && equal(a.ClockSkew, b.ClockSkew) &&
		near(a.RTTMicros, b.RTTMicros) && a.LossPercent == b.LossPercent && a.CallsPerSecond == b.CallsPerSecond
}

// near reports that two durations are within a quarter of each other.
func near(a, b int64) bool { return 4*max(a-b, b-a) <= max(a, b) }

// A route's version is that of its node's whole table: it rises with every
// route, and is no news of this one.
func notableRoute(a, b *shield.RouteRow) bool {
	return a.Node != b.Node || a.Name != b.Name || a.Service != b.Service
}

func sameRoute(a, b *shield.RouteRow) bool { return *a == *b }

func notableService(a, b *shield.ServiceRow) bool {
	return a.Name != b.Name || a.Node != b.Node || a.ID != b.ID || a.State != b.State || a.Generation != b.Generation ||
		a.Code != b.Code || a.Mixed != b.Mixed || a.Restarts != b.Restarts || a.Reason != b.Reason || a.Reload != b.Reload || !slices.Equal(a.Names, b.Names)
}

func sameService(a, b *shield.ServiceRow) bool {
	return !notableService(a, b) && a.Mailbox == b.Mailbox && a.Calls == b.Calls && a.Module == b.Module && a.Errors == b.Errors &&
		a.Sessions == b.Sessions && a.Memory == b.Memory &&
		(a.ReloadTime == b.ReloadTime || a.ReloadTime != nil && b.ReloadTime != nil && a.ReloadTime.Equal(*b.ReloadTime))
}

func notableSession(a, b *shield.SessionRow) bool {
	return a.Session != b.Session || a.Player != b.Player || a.Epoch != b.Epoch || a.Target != b.Target || a.State != b.State
}

func sameSession(a, b *shield.SessionRow) bool {
	return !notableSession(a, b) && a.Gateway == b.Gateway && a.Address == b.Address && a.Transport == b.Transport && a.In == b.In &&
		a.Out == b.Out && a.Stale == b.Stale && a.Queue == b.Queue && a.Code == b.Code && slices.Equal(a.History, b.History)
}

func notableStatus(a, b *NodeStatus) bool { return notableNode(&a.NodeRow, &b.NodeRow) }

func sameStatus(a, b *NodeStatus) bool {
	return sameNode(&a.NodeRow, &b.NodeRow) && a.Memory == b.Memory && maps.Equal(a.Counters, b.Counters) &&
		sameCluster(a.Cluster, b.Cluster) && slices.EqualFunc(a.Gateway, b.Gateway, sameGateway) &&
		(a.Clock == b.Clock || a.Clock != nil && b.Clock != nil && a.Clock.Shift == b.Clock.Shift)
}

func sameCluster(a, b *ClusterStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equal(a.ClusterCounters, b.ClusterCounters) &&
		slices.EqualFunc(a.Nodes, b.Nodes, func(a, b shield.NodeRow) bool { return sameNode(&a, &b) })
}

func sameGateway(a, b GatewayStatus) bool {
	return a.Gateway == b.Gateway && a.Sessions == b.Sessions && slices.Equal(a.Addresses, b.Addresses) && maps.Equal(a.Counters, b.Counters)
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
