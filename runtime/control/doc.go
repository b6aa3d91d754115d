// Package control is the one way in for tools: the structs of the control API,
// the server that speaks it (HTTP and JSON on a Unix socket, so that curl
// works), and the Host that a running project implements.
//
// The server asks a Host and knows nothing of nodes, VMs or screens. A Host's
// methods are called from many goroutines at once. Reading must be cheap and
// must not wait for a service: it is done twice a second for each topic that
// somebody watches, and never while nobody does.
//
// Every error that leaves the API is a shield.Error as JSON. Rows are those of
// package shield, sorted. Fields may be added, never renamed.
//
// Reading:
//
//	GET  /healthz                 200 while the process does its work
//	GET  /readyz                  200 while it wants traffic: every node online, none draining
//	GET  /metrics                 Prometheus text
//	GET  /ops/project             Project
//	GET  /ops/status              Status: every node's own row and counters
//	GET  /ops/nodes?from=NODE     []shield.NodeRow as NODE sees them (default: the first node)
//	GET  /ops/routes?from=NODE    []shield.RouteRow
//	GET  /ops/services?node=NODE  []shield.ServiceRow
//	GET  /ops/sessions            []shield.SessionRow
//	GET  /ops/sessions/ID         shield.SessionRow with its epoch history
//	GET  /ops/methods?target=T    []string
//	GET  /ops/complete?target=T&session=S&line=L   Completion; where eval is allowed
//	GET  /ops/inspect?target=T&state=1&session=S   Inspection; state=1 where eval is allowed
//	GET  /ops/waits               []WaitRow
//	GET  /ops/why?service=NAME    []WhyRow
//	GET  /ops/logs?tail=N&level=L&node=N&service=S&follow=1   one shield.LogRow a line
//	GET  /ops/watch?topics=T,T&from=NODE&rows=KEY,KEY         one Event a line
//
// Writing, each with a JSON body and each audited in the log:
//
//	POST /ops/call      CallRequest      CallResult
//	POST /ops/eval      EvalRequest      CallResult
//	POST /ops/reload    ReloadRequest    ReloadResult
//	POST /ops/drain     DrainRequest     shield.NodeRow
//	POST /ops/node      NodeRequest      shield.NodeRow    stop, kill, restart, freeze, thaw
//	POST /ops/kick      KickRequest      shield.SessionRow
//	POST /ops/loglevel  LogLevelRequest  LogLevel
//	POST /ops/clock     ClockRequest     []ClockRow
package control
