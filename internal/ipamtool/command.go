package ipamtool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// command is a subcommand of limpet-ipam.
type command struct {
	name    string
	operand string // the argument beside flags; "" for none
	summary string
	example string
	flags   func(*flag.FlagSet, *options) // flags of this command only; nil for none
	run     func(*Tool, context.Context, options) error
}

// options holds the flags of all commands, and the operand.
type options struct {
	dataDir  string
	lockWait time.Duration
	network  string
	output   string
	dryRun   bool
	onLoan   bool
	repair   bool
	operand  string
}

var commands = []command{listCommand, showCommand, checkCommand, releaseCommand, compactCommand}

func (t *Tool) run(ctx context.Context, args []string) error {
	args = commandFirst(args)
	name := args[0]
	for _, c := range commands {
		if c.name != name {
			continue
		}
		o, err := c.parse(args[1:])
		if errors.Is(err, flag.ErrHelp) {
			return c.help(t.Stdout)
		}
		if err != nil {
			return fmt.Errorf("%w (see limpet-ipam %s --help)", err, c.name)
		}
		return c.run(t, ctx, o)
	}
	switch strings.TrimLeft(name, "-") {
	case "help", "h":
		return t.help(args[1:])
	case "version":
		_, err := fmt.Fprintln(t.Stdout, "limpet-ipam", t.Version)
		return err
	}
	return fmt.Errorf("unknown command %q (see limpet-ipam --help)", name)
}

// commandFirst moves a command behind its flags to the front.
func commandFirst(args []string) []string {
	for i := 0; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		switch name := strings.TrimLeft(args[i], "-"); name {
		case "help", "h", "version":
			return args
		case "dry-run", "on-loan", "repair":
		default:
			if !strings.Contains(name, "=") {
				i++ // the value
			}
		}
		if next := i + 1; next < len(args) && isCommand(args[next]) {
			return slices.Concat(args[next:next+1], args[:next], args[next+1:])
		}
	}
	return args
}

func isCommand(name string) bool {
	return slices.ContainsFunc(commands, func(c command) bool { return c.name == name })
}

// help shows the help of a command, or the list of all.
func (t *Tool) help(of []string) error {
	if len(of) == 0 {
		return usage(t.Stdout)
	}
	for _, c := range commands {
		if c.name == of[0] {
			return c.help(t.Stdout)
		}
	}
	return fmt.Errorf("unknown command %q (see limpet-ipam --help)", of[0])
}

// parse reads flags before and after the operand.
func (c command) parse(args []string) (options, error) {
	var o options
	f := c.flagSet(&o)
	var operands []string
	for {
		if err := f.Parse(args); err != nil {
			return o, err
		}
		if f.NArg() == 0 {
			break
		}
		operands = append(operands, f.Arg(0))
		args = f.Args()[1:]
	}
	switch {
	case c.operand == "" && len(operands) > 0:
		return o, fmt.Errorf("unexpected argument %q", operands[0])
	case o.dataDir == "":
		return o, errors.New("--data-dir is empty")
	case c.operand != "" && (len(operands) != 1 || operands[0] == ""): // "" would match the beginning of every ID
		return o, fmt.Errorf("%s takes one argument, %s", c.name, c.operand)
	case o.lockWait <= 0:
		return o, fmt.Errorf("--lock-wait %s is not greater than zero", o.lockWait)
	case o.output != "table" && o.output != "json":
		return o, fmt.Errorf("unknown output format %q: table or json", o.output)
	case c.operand != "":
		o.operand = operands[0]
	}
	var err error
	o.dataDir, err = filepath.Abs(o.dataDir) // network configurations have absolute paths
	return o, err
}

func (c command) flagSet(o *options) *flag.FlagSet {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.dataDir, "data-dir", persistence.DefaultDir, "`directory` of the state, the value of ipam.dataDir in the network configuration")
	f.DurationVar(&o.lockWait, "lock-wait", persistence.DefaultLockWait, "how long to wait for the lock of the state file")
	f.StringVar(&o.output, "o", "table", "output `format`: table or json")
	f.StringVar(&o.output, "output", "table", "the same as -o: output `format`")
	if c.flags != nil {
		c.flags(f, o)
	}
	return f
}

func networkFlag(f *flag.FlagSet, o *options) {
	f.StringVar(&o.network, "network", "", "use only the network with this `name`")
}

// store returns the state that the flags name. No file is opened yet.
func (o options) store(rebuild func(persistence.Salvaged) (reservation.Records, error)) *persistence.Store {
	return persistence.New(persistence.Options{Dir: o.dataDir, LockWait: o.lockWait, Existing: rebuild == nil, Rebuild: rebuild})
}

func (c command) help(w io.Writer) error {
	call := strings.TrimSpace(c.name + " " + c.operand)
	flags := table{indent: "  ", gap: 2}
	c.flagSet(&options{}).VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" {
			text += " (" + f.DefValue + ")"
		}
		flags.row(strings.TrimSpace(dashed(f.Name)+" "+value), text)
	})
	_, err := fmt.Fprintf(w, "%s\n\nUsage:\n  limpet-ipam %s [flags]\n\nExample:\n  %s\n\nFlags:\n",
		c.summary, call, strings.ReplaceAll(c.example, "\n", "\n  "))
	return errors.Join(err, flags.write(w))
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func usage(w io.Writer) error {
	list := table{indent: "  ", gap: 2}
	for _, c := range commands {
		list.row(strings.TrimSpace(c.name+" "+c.operand), c.summary)
	}
	_, before := io.WriteString(w, "limpet-ipam is a CNI plugin that container runtimes run. The commands show and repair the state of this node.\n\nCommands:\n")
	list.row("version", "Print the version")
	err := list.write(w)
	_, after := io.WriteString(w, "\nlimpet-ipam COMMAND --help shows the flags and an example of a command.\n")
	return errors.Join(before, err, after)
}
