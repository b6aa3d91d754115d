package luaapi

import (
	"log/slog"
	"sort"

	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

func logDebug(L *lua.LState) int { return logAt(L, slog.LevelDebug) }
func logInfo(L *lua.LState) int  { return logAt(L, slog.LevelInfo) }
func logWarn(L *lua.LState) int  { return logAt(L, slog.LevelWarn) }
func logError(L *lua.LState) int { return logAt(L, slog.LevelError) }

func logAt(L *lua.LState, level slog.Level) int {
	msg := L.ToStringMeta(L.Get(1)).String()
	var fields []slog.Attr
	switch f := L.Get(2).(type) {
	case *lua.LTable:
		f.ForEach(func(k, v lua.LValue) {
			fields = append(fields, slog.Any(fieldKey(k.String()), plain(v)))
		})
		sort.Slice(fields, func(i, j int) bool { return fields[i].Key < fields[j].Key })
	case *lua.LNilType:
	default:
		fields = append(fields, slog.Any("field", plain(f)))
	}
	of(L).Log(level, msg, fields...)
	return 0
}

// fieldKey keeps a script's field from being taken for one of the runtime's.
func fieldKey(key string) string {
	switch key {
	case "node", "service", "event", "code", "trace", "gen", "":
		return "fields." + key
	}
	return key
}

// plain is a value as a log can hold it.
func plain(v lua.LValue) any {
	c, err := value.CopyValue(v, "field", 16<<10)
	if err != nil {
		return v.String()
	}
	return value.ToGo(c)
}
