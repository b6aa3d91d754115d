package shield

// NodeState is how one node sees another (DESIGN.md 3.2).
type NodeState string

const (
	Connecting NodeState = "connecting"
	Online     NodeState = "online"
	Suspect    NodeState = "suspect"
	Offline    NodeState = "offline"
	Removed    NodeState = "removed"
)

// Intent is what a node means to do, beside how others see it.
type Intent string

const (
	Serving  Intent = "serving"
	Draining Intent = "draining"
)

// ServiceState is where a service stands in its life.
type ServiceState string

const (
	Starting   ServiceState = "starting"
	Running    ServiceState = "running"
	Stopping   ServiceState = "stopping"
	Restarting ServiceState = "restarting"
	Failed     ServiceState = "failed"
)

// SessionState is where a session stands in its life.
type SessionState string

const (
	SessionNew     SessionState = "new"     // not bound yet: talks to the auth service
	SessionBound   SessionState = "bound"   // bound to a target and a player
	SessionDropped SessionState = "dropped" // connection lost, inside its resume window
)
