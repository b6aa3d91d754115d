package luavm

// Check reports whether source compiles, without a World and without running
// it. The error is a *ScriptError.
func Check(path string, source []byte) error {
	_, err := compile(path, string(source))
	return err
}
