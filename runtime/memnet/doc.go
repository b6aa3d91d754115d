// Package memnet is a network in memory for tests of games: links between nodes
// (it satisfies cluster.Transport) and the connections of clients. What a frame
// meets on the way is decided by the Network: a cut, a delay, a loss, which a link
// as reliable as QUIC's shows as a longer delay.
//
// Nothing in it is left to chance but what Config.Seed decides, and whoever is
// about to hand something over asks Config.Turn first, one at a time, so a
// scheduler can repeat a whole run. Inside a synctest bubble all its time is
// virtual. It does no I/O. Transport.Close and Conn.Close end what they started.
package memnet
