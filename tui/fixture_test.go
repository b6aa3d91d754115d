package tui

import (
	"fmt"
	"time"

	"shield/runtime/shield"
)

// epochStart is when a synctest bubble begins; the fixtures are told from there.
var epochStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return epochStart.Add(time.Duration(seconds * float64(time.Second)))
}

func ptr[T any](v T) *T { return &v }

// arena is a cluster of four nodes with something of everything.
func arena() *Snapshot {
	s := &Snapshot{App: "arena", Mode: "dev", Version: "0.1.0", Endpoint: "unix:.shield/control.sock", UptimeMS: 761_000}
	s.Nodes = []shield.NodeRow{
		{Node: "node-1", State: shield.Online, Intent: shield.Serving, Epoch: 946684800000001, Address: "127.0.0.1:9001", Gateways: []string{"tcp://127.0.0.1:7001"}, Services: 4, Sessions: 19, RoutesVersion: 31, Self: true, Uptime: 761_000, CallsPerSecond: 412, HeartbeatAge: ptr(int64(0))},
		{Node: "node-2", State: shield.Online, Intent: shield.Serving, Epoch: 946684800000002, Address: "127.0.0.1:9002", Services: 3, Sessions: 18, RoutesVersion: 31, RTTMicros: 412, Uptime: 761_000, CallsPerSecond: 398, HeartbeatAge: ptr(int64(312)), ClockSkew: ptr(int64(3))},
		{Node: "node-3", State: shield.Online, Intent: shield.Draining, Epoch: 946684800000003, Address: "127.0.0.1:9003", Services: 3, Sessions: 1, RoutesVersion: 30, RoutesBehind: true, RTTMicros: 640, LossPercent: 2.4, Uptime: 761_000, CallsPerSecond: 7.25, HeartbeatAge: ptr(int64(1800))},
		{Node: "node-10", State: shield.Offline, Intent: shield.Serving, Epoch: 946684800000010, Address: "127.0.0.1:9010", Reason: "no heartbeat for 10s", HeartbeatAge: ptr(int64(14_000)), RTTMicros: 800, LossPercent: 40, Uptime: 50_000},
	}
	for i, n := range []shield.NodeID{"node-1", "node-2", "node-3"} {
		for j, name := range []shield.Name{"auth", "players", "room.public"} {
			id := shield.ServiceID(j + 1)
			row := shield.ServiceRow{Name: name, Names: []shield.Name{name}, Node: n, ID: id, State: shield.Running, Generation: 4, Code: "a41f9c",
				Calls: int64(1000 * (i + j + 1)), Module: "services/" + string(name), Memory: 412 << 10, Sessions: 6, Mailbox: j}
			if name == "room.public" {
				row.ReloadTime, row.Reload = ptr(at(-40)), "ok"
				if n == "node-3" {
					row.Code, row.Generation = "77be01", 3
					row.Reload = "failed: services/room.lua:12:7: '=' expected near 'x'\n   12 | local room x\n      |            ^"
				}
			}
			s.Services = append(s.Services, row)
			s.Routes = append(s.Routes, shield.RouteRow{Node: n, Name: name, Service: id, Version: 31})
		}
	}
	s.Services = append(s.Services, shield.ServiceRow{Name: "store", Names: []shield.Name{"store", "bank"}, Node: "node-1", ID: 9, State: shield.Failed, Generation: 2, Code: "0c77d2",
		Errors: 10, Restarts: 5, Reason: "panic: 10 errors in a row; store.lua:88: attempt to index a nil value (field 'hp')", Module: "services/store"})
	players := []string{"lin", "ann", "chris", "", "kelly", "漢字", "\x1b[31mmallory\x1b[0m", "हिन्दी", "👨‍👩‍👧", "Grüße"}
	for i := range 38 {
		row := shield.SessionRow{Session: shield.SessionID(fmt.Sprintf("s-%04x", 0x1b90+i*0x39)), Player: players[i%len(players)], Epoch: shield.SessionEpoch(i%5 + 1),
			Target: fmt.Sprintf("node-%d:player", i%2+1), Gateway: "node-1:main", State: shield.SessionBound, Address: fmt.Sprintf("127.0.0.1:%d", 50000+i), Transport: "tcp",
			In: int64(i * 31), Out: int64(i * 77), IdleMS: int64(i * 700), OpenedMS: int64(600_000 + i*1000), Code: "4 a41f9c"}
		if row.Player == "" {
			row.State, row.Target, row.Epoch = shield.SessionNew, "node-1:auth", 0
		}
		if i == 1 {
			row.Epoch, row.Stale = 7, 3
			row.History = []shield.EpochStep{
				{Epoch: 0, Time: at(-700), Cause: "opened", Target: "node-1:auth"},
				{Epoch: 6, Time: at(-600), Cause: "bind", Player: "ann", Target: "node-1:player"},
				{Epoch: 7, Time: at(-20), Cause: "bind", Player: "ann", Target: "node-2:player"},
			}
		}
		s.Sessions = append(s.Sessions, row)
	}
	s.Calls = []shield.CallRow{
		{Time: at(-3), Trace: 0x7f21, From: "session s-1b90", Target: "room.public", Method: "attack", Node: "node-2", Micros: 6400, Result: "ok"},
		{Time: at(-2.5), Trace: 0x7f22, From: "session s-1bc9", Target: "room.public", Method: "attack", Node: "node-2", Micros: 5_000_000, Result: "timeout"},
		{Time: at(-2.4), Trace: 0x7f22, From: "room.public", Target: "node-1:store", Method: "save", Node: "node-2", Micros: 1100, Result: "service_dead"},
		{Time: at(-1), Trace: 0x7f23, From: "control", Target: "node-3#3", Method: "ping", Node: "node-1", Micros: 900, Result: "ok"},
	}
	s.Logs = arenaLogs()
	return s
}

func arenaLogs() []shield.LogRow {
	return []shield.LogRow{
		{Seq: 1, Time: at(-50), Level: "info", Node: "node-1", Service: "cluster", Text: "node-10: online -> suspect: no heartbeat for 6s", Event: "state"},
		{Seq: 2, Time: at(-46), Level: "warn", Node: "node-1", Service: "cluster", Text: "node-10: suspect -> offline: no heartbeat for 10s", Event: "state"},
		{Seq: 3, Time: at(-40), Level: "info", Node: "node-1", Service: "reload", Text: "room.lua: generation 3 -> 4 in 11ms (1 service, 12 sessions kept)", Event: "reload"},
		{Seq: 4, Time: at(-39.5), Level: "error", Node: "node-3", Service: "reload", Text: "services/room.lua:12:7: '=' expected near 'x'; generation 3 keeps serving\n   12 | local room x\n      |            ^", Event: "reload"},
		{Seq: 5, Time: at(-30), Level: "debug", Node: "node-1", Service: "gateway", Text: "connection from 127.0.0.1:50001"},
		{Seq: 6, Time: at(-20), Level: "info", Node: "node-1", Service: "gateway", Text: "s-1bc9 epoch 6 -> 7: bind to node-2:player", Event: "epoch"},
		{Seq: 7, Time: at(-10), Level: "error", Node: "node-1", Service: "store", Text: "store.lua:88: attempt to index a nil value (field 'hp')\nstack traceback:\n\tstore.lua:88: in function 'save'\n\tstore.lua:31: in function <store.lua:20>", Generation: 2, Code: "0c77d2"},
		{Seq: 8, Time: at(-9), Level: "error", Node: "node-1", Service: "store", Text: "exit: panic: 10 errors in a row; restart 5 of 5", Event: "crash"},
		{Seq: 9, Time: at(-5), Level: "info", Node: "node-2", Service: "room.public", Text: "ann joined \x1b[31mred\x1b[0m", Generation: 4, Code: "a41f9c"},
		{Seq: 10, Time: at(-1), Level: "warn", Node: "node-1", Service: "gateway", Text: "s-1bc9 refused 3 pushes: epoch 6 < 7"},
	}
}
