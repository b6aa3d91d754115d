package control_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/control"
	"shield/runtime/shield"
)

func TestSortingIsThatOfAPerson(t *testing.T) {
	rows := []shield.NodeRow{{Node: "node-10"}, {Node: "node-2"}, {Node: "gate"}, {Node: "node-02"}, {Node: "node-1"}}
	control.SortNodes(rows)
	var got []shield.NodeID
	for _, r := range rows {
		got = append(got, r.Node)
	}
	if diff := cmp.Diff([]shield.NodeID{"gate", "node-1", "node-2", "node-02", "node-10"}, got); diff != "" {
		t.Error(diff)
	}
}

// A field that a comparison forgets would never reach a screen.
func TestComparisonsForgetNoField(t *testing.T) {
	forgetsNone(t, control.SameNode, "Uptime", "HeartbeatAge")
	forgetsNone(t, control.SameRoute)
	forgetsNone(t, control.SameService)
	forgetsNone(t, control.SameSession, "IdleMS", "OpenedMS")
	forgetsNone(t, control.SameStatus, "Uptime", "HeartbeatAge")
}

// forgetsNone changes one field of a row after the other.
func forgetsNone[T any](t *testing.T, same func(a, b *T) bool, ages ...string) {
	t.Helper()
	var zero T
	for _, f := range reflect.VisibleFields(reflect.TypeOf(zero)) {
		if f.Anonymous {
			continue
		}
		var a, b T
		fill(t, reflect.ValueOf(&b).Elem().FieldByIndex(f.Index))
		if want := slices.Contains(ages, f.Name); same(&a, &b) != want {
			t.Errorf("%T: a change of %s alone: same = %v, want %v", zero, f.Name, !want, want)
		}
	}
}

// fill sets v to something that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.ValueOf(int64(1)))
	default:
		t.Fatalf("can't fill a %s", v.Kind())
	}
}
