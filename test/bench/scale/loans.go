package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/limpet-io/limpet/test/programs"
)

// loansTest has an agent among many loans, and an API server of its own.
const loansTest = "TestAnAgentAmongTenThousandLoans"

// loanRow is a row of the table that the test prints.
var loanRow = regexp.MustCompile(`(?m)^ +\S+_test\.go:\d+: (\| .* \|)$`)

var errNoRows = errors.New("the test prints no row")

// measureLoans runs the test, and keeps the rows that it prints.
func measureLoans(ctx context.Context, b *bench, r *results) error {
	b.progress("%d nodes, %d loans", b.size.LoanNodes, b.size.Loans)
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run=^"+loansTest+"$", "./internal/agent",
		fmt.Sprint("-crowd-nodes=", b.size.LoanNodes), fmt.Sprint("-crowd-loans=", b.size.Loans))
	cmd.Dir, cmd.Env = b.Root, append(os.Environ(), programs.Var+"="+b.Assets)
	out, err := cmd.CombinedOutput()
	var rows []string
	for _, m := range loanRow.FindAllStringSubmatch(string(out), -1) {
		rows = append(rows, m[1])
	}
	if err == nil && len(rows) == 0 {
		err = errNoRows
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	r.Loans = rows
	return nil
}

// loans are the rows of the scene with loans.
func (r *results) loans(to *strings.Builder) {
	if len(r.Loans) == 0 {
		return
	}
	fmt.Fprintf(to, "\n## Loans\n\nMeasured on %s, by `%s`: one agent in a network namespace, and lent addresses between other nodes.\n\n| what | measured |\n|---|---|\n%s\n",
		r.day(sceneLoans), loansTest, strings.Join(r.Loans, "\n"))
}
