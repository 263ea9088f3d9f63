package build

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// cProgram is a program in C whose source is a directory of a module.
type cProgram struct{ name, module, dir string }

// compile builds the program into a directory. It takes the version of the module that the build module at src names.
func (p *cProgram) compile(ctx context.Context, src, out string) error {
	module, err := moduleDir(ctx, src, p.module)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(module, p.dir, "*.c"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("find the source of %s in %s: %w", p.name, module, errors.Join(err, errContents))
	}
	cmd := exec.CommandContext(ctx, "gcc", append([]string{"-O2", "-o", filepath.Join(out, p.name)}, files...)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", p.name, err, tail(string(text), 20))
	}
	return nil
}
