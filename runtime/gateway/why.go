package gateway

import (
	"fmt"

	"shield/runtime/shield"
)

// why says for people what a check found wrong with a frame whose body has n
// bytes, and what would have passed.
func (c *client) why(code shield.Code, id shield.RouteID, n int) string {
	rpc, name := c.g.routes.Load().table.ByID(id), c.routeText(id)
	switch code {
	case shield.RPCRouteNotFound:
		if id < shield.FirstRouteID {
			return fmt.Sprintf("%d is none of the gateway's own ids that a client may send (2 is ping)", id)
		}
		return fmt.Sprintf("rpc.yaml has no route with the id %d", id)
	case shield.RPCDirectionRejected:
		return name + " goes to the client (s2c), not from it"
	case shield.RPCNotAuthenticated:
		return name + " wants a login, and this session is not bound yet: wait for what answers the login, or set auth: false"
	case shield.FrameTooLarge:
		most := maxPing
		if rpc != nil {
			most = rpc.MaxBody
		}
		return fmt.Sprintf("the body of %s has %d bytes, and may have %d (max_body)", name, n, most)
	case shield.RateLimited:
		if rpc != nil && rpc.Rate > 0 && (c.g.limits.Rate <= 0 || c.reader.session.tokens >= 1) {
			return fmt.Sprintf("%s comes more than %v times a second (its rate in rpc.yaml)", name, rpc.Rate)
		}
		return fmt.Sprintf("the session sends more than %v frames a second (gateways.network.rate)", c.g.limits.Rate)
	}
	return name
}
