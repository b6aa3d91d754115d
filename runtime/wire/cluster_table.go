package wire

import (
	"encoding/binary"

	"shield/runtime/shield"
)

// MaxRoutes bounds the names one node may publish.
const MaxRoutes = 1 << 18

// RoutesChunk is how many names one routes frame holds at most, so that
// heartbeats never wait behind a large table.
const RoutesChunk = 512

// Route is one published name. In a RouteChange an id of 0 withdraws it.
type Route struct {
	Name shield.Name
	ID   shield.ServiceID
}

// Routes is one part of a node's whole table at one version.
type Routes struct {
	Epoch   shield.NodeEpoch
	Version shield.RoutesVersion
	First   bool
	Last    bool
	Routes  []Route
}

// RouteChange turns the table of version From into that of version To.
type RouteChange struct {
	Epoch    shield.NodeEpoch
	From, To shield.RoutesVersion
	Routes   []Route
}

const (
	routesFirst = 1
	routesLast  = 2
)

// AppendRoutes appends the frames of a whole table.
func AppendRoutes(dst []byte, epoch shield.NodeEpoch, version shield.RoutesVersion, table []Route) []byte {
	for first := true; first || len(table) > 0; first = false {
		part := table[:min(len(table), RoutesChunk)]
		table = table[len(part):]
		flags := byte(0)
		if first {
			flags |= routesFirst
		}
		if len(table) == 0 {
			flags |= routesLast
		}
		var start int
		dst, start = beginFrame(dst, KindRoutes)
		dst = binary.BigEndian.AppendUint64(dst, uint64(epoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(version))
		dst = append(dst, flags)
		dst = endFrame(appendRouteList(dst, part), start)
	}
	return dst
}

// DecodeRoutes reads a body.
func DecodeRoutes(body []byte) (*Routes, error) {
	f := fields{b: body}
	r := &Routes{Epoch: shield.NodeEpoch(f.u64("epoch")), Version: shield.RoutesVersion(f.u64("version"))}
	flags := f.u8("flags")
	r.First, r.Last = flags&routesFirst != 0, flags&routesLast != 0
	r.Routes = readRouteList(&f)
	return r, f.done()
}

// AppendRouteChange appends the frame.
func AppendRouteChange(dst []byte, c *RouteChange) []byte {
	dst, start := beginFrame(dst, KindRouteChange)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Epoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.From))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.To))
	return endFrame(appendRouteList(dst, c.Routes), start)
}

// DecodeRouteChange reads a body.
func DecodeRouteChange(body []byte) (*RouteChange, error) {
	f := fields{b: body}
	c := &RouteChange{
		Epoch: shield.NodeEpoch(f.u64("epoch")),
		From:  shield.RoutesVersion(f.u64("from")),
		To:    shield.RoutesVersion(f.u64("to")),
	}
	c.Routes = readRouteList(&f)
	return c, f.done()
}

func appendRouteList(dst []byte, list []Route) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for i := range list {
		dst = appendString(dst, string(list[i].Name))
		dst = binary.AppendUvarint(dst, uint64(list[i].ID))
	}
	return dst
}

func readRouteList(f *fields) []Route {
	n := f.count("routes", 3)
	if f.err != nil || n == 0 {
		return nil
	}
	if n > RoutesChunk {
		f.fail("routes", ErrTooLong)
		return nil
	}
	list := make([]Route, 0, n)
	for range n {
		name := f.text("name", shield.MaxName)
		id := shield.ServiceID(f.uvarint("service"))
		if f.err == nil && shield.CheckName(name) != nil {
			f.fail("name", ErrMalformed)
		}
		if f.err != nil {
			return nil
		}
		list = append(list, Route{Name: shield.Name(name), ID: id})
	}
	return list
}
