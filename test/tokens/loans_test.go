package tokens_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

type borrowed = *limpetv1alpha1.BorrowedAddress

// lending is the object of a loan.
func lending(ns, pod string, l loan.Loan) borrowed {
	spec := limpetv1alpha1.BorrowedAddressSpec{Pod: pod, Interface: "eth0", Network: "net", IPs: "10.0.0.5"}
	return &limpetv1alpha1.BorrowedAddress{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: spec.ObjectName()}, Spec: spec, Status: statusOfLoan(l),
	}
}

func statusOfLoan(l loan.Loan) limpetv1alpha1.BorrowedAddressStatus {
	now := metav1.Now()
	return limpetv1alpha1.BorrowedAddressStatus{
		Home: l.Home, Borrower: l.Borrower, Phase: limpetv1alpha1.LoanPhase(l.Phase), Epoch: l.Epoch, GiveBack: l.GiveBack, Free: l.Free, Since: &now,
	}
}

// to is an edit of a loan: its status becomes what a function makes of it.
func to(edit func(*limpetv1alpha1.BorrowedAddressStatus)) func(borrowed) {
	return func(b borrowed) { edit(&b.Status) }
}

// A stolen token of an agent lends, ends and gives back what its own node may, step by step, and writes nothing else: two
// pods would have one address.
func TestAStolenTokenOfAnAgentTakesNoLoan(t *testing.T) {
	deploy(t)
	own, other, ns := env.Node(t), env.Node(t), env.Namespace(t)
	thief := env.As(t, env.Token(t, agent, own.Name))
	made := func(pod string, l loan.Loan) borrowed {
		l.Epoch = 5
		b := lending(ns, pod, l)
		env.Create(t, b)
		return b
	}
	asked := made("asked", loan.Loan{Home: own.Name, Phase: loan.Asked})
	over := made("over", loan.Loan{Home: own.Name, Phase: loan.Asked, Free: true})
	here := made("here", loan.Loan{Home: own.Name, Phase: loan.Lent})
	away := made("away", loan.Loan{Home: own.Name, Borrower: other.Name, Phase: loan.Lent})
	ending := made("ending", loan.Loan{Home: own.Name, Borrower: other.Name, Phase: loan.Ending})
	ended := made("ended", loan.Loan{Home: own.Name, Phase: loan.Ended})
	guest := made("guest", loan.Loan{Home: other.Name, Borrower: own.Name, Phase: loan.Lent, GiveBack: true})
	theirs := made("theirs", loan.Loan{Home: other.Name, Phase: loan.Lent})
	theirAsked := made("their-asked", loan.Loan{Home: other.Name, Phase: loan.Asked})
	theirEnding := made("their-ending", loan.Loan{Home: other.Name, Phase: loan.Ending})
	theirEnded := made("their-ended", loan.Loan{Home: other.Name, Phase: loan.Ended})
	kept := func(b borrowed) borrowed {
		b.Finalizers = []string{loan.Finalizer, "example.com/hold"}
		env.Create(t, b)
		return b
	}
	keptEnded := kept(lending(ns, "kept-ended", loan.Loan{Home: own.Name, Phase: loan.Ended, Epoch: 5}))
	keptLent := kept(lending(ns, "kept-lent", loan.Loan{Home: own.Name, Phase: loan.Lent, Epoch: 5}))
	theirKept := kept(lending(ns, "their-kept", loan.Loan{Home: other.Name, Phase: loan.Ended, Epoch: 5}))
	lets := func(b borrowed) { b.Finalizers = []string{"example.com/hold"} }
	labelled := lending(ns, "labelled", loan.Loan{Home: own.Name, Phase: loan.Asked, Epoch: 5})
	labelled.Labels, labelled.Finalizers = map[string]string{"app": "web"}, []string{"example.com/hold"}
	env.Create(t, labelled)
	lost := lending(ns, "lost", loan.Loan{Home: own.Name, Borrower: loan.Unknown, Phase: loan.Lent, Epoch: 5})
	type status = *limpetv1alpha1.BorrowedAddressStatus
	lends := func(edit func(borrowed)) request {
		return update(asked, func(b borrowed) {
			b.Status.Phase = "Lent"
			edit(b)
		})
	}

	for name, tc := range map[string]struct {
		by string
		do request
	}{
		"lend for another home":               {denied, update(theirAsked, to(func(s status) { s.Phase = "Lent" }))},
		"end for another home":                {denied, update(theirEnding, to(func(s status) { s.Phase = "Ended" }))},
		"delete for another home":             {denied, remove(theirEnded)},
		"take over as home":                   {denied, update(theirs, to(func(s status) { s.Home = own.Name }))},
		"take over as home, and end":          {denied, update(theirs, to(func(s status) { s.Home, s.Phase = own.Name, "Ended" }))},
		"make another node home":              {denied, update(here, to(func(s status) { s.Home = other.Name }))},
		"borrow":                              {denied, update(theirs, to(func(s status) { s.Borrower, s.Epoch = own.Name, 6 }))},
		"borrow, as home":                     {denied, update(here, to(func(s status) { s.Borrower, s.Epoch = own.Name, 6 }))},
		"name a borrower, as home":            {denied, update(here, to(func(s status) { s.Borrower, s.Epoch = other.Name, 6 }))},
		"… while lending":                     {denied, lends(to(func(s status) { s.Borrower, s.Epoch = other.Name, 6 }))},
		"say that the borrower is not known":  {denied, update(here, to(func(s status) { s.Borrower, s.Epoch = loan.Unknown, 6 }))},
		"… with a later epoch":                {denied, lends(to(func(s status) { s.Borrower, s.Epoch = loan.Unknown, 7 }))},
		"… freeing":                           {denied, lends(to(func(s status) { s.Borrower, s.Epoch, s.Free = loan.Unknown, 6, true }))},
		"remove another borrower, as home":    {denied, update(away, to(func(s status) { s.Borrower, s.Epoch = "", 6 }))},
		"… and end":                           {denied, update(ending, to(func(s status) { s.Borrower, s.Epoch, s.Phase = "", 6, "Ended" }))},
		"ask a borrower to give back":         {denied, update(away, to(func(s status) { s.GiveBack = true }))},
		"ask a borrower to end":               {denied, update(away, to(func(s status) { s.Phase = "Ending" }))},
		"let the borrower keep it":            {denied, update(ending, to(func(s status) { s.Phase = "Lent" }))},
		"lend again what has ended":           {denied, update(ended, to(func(s status) { s.Phase = "Lent" }))},
		"free without an end":                 {denied, update(here, to(func(s status) { s.Free = true }))},
		"free while lending":                  {denied, lends(to(func(s status) { s.Free = true }))},
		"keep what shall be freed":            {denied, update(over, to(func(s status) { s.Free, s.Phase = false, "Ended" }))},
		"free what was lent":                  {denied, update(here, to(func(s status) { s.Free, s.Phase = true, "Ended" }))},
		"jump to a later epoch while lending": {denied, lends(to(func(s status) { s.Epoch = 6 }))},
		"… while ending":                      {denied, update(here, to(func(s status) { s.Epoch, s.Phase = 6, "Ended" }))},
		"… while giving back":                 {denied, update(guest, to(func(s status) { s.Borrower, s.Epoch, s.GiveBack = "", 7, false }))},
		"give back, and ask for more":         {denied, update(guest, to(func(s status) { s.Borrower, s.Epoch = "", 6 }))},
		"give back, and end":                  {denied, update(guest, to(func(s status) { s.Borrower, s.Epoch, s.GiveBack, s.Phase = "", 6, false, "Ended" }))},
		"give back, and free":                 {denied, update(guest, to(func(s status) { s.Borrower, s.Epoch, s.GiveBack, s.Free = "", 6, false, true }))},
		"keep what it shall give back":        {denied, update(guest, to(func(s status) { s.GiveBack = false }))},
		"delete what it borrows":              {denied, remove(guest)},
		"delete what it was asked for":        {denied, remove(asked)},
		"delete what it has lent":             {denied, remove(here)},
		"delete what another node borrows":    {denied, remove(away)},
		"write the time alone":                {denied, update(here, to(func(s status) { s.Since = nil }))},
		"add a finalizer":                     {denied, lends(func(b borrowed) { b.Finalizers = []string{"example.com/hold"} })},
		"add a label":                         {denied, lends(func(b borrowed) { b.Labels = map[string]string{"a": ""} })},
		"add an annotation":                   {denied, lends(func(b borrowed) { b.Annotations = map[string]string{"a": ""} })},
		"add an owner":                        {denied, lends(func(b borrowed) { b.OwnerReferences = ownedBy(own) })},
		"add a finalizer alone":               {denied, update(here, func(b borrowed) { b.Finalizers = []string{"example.com/hold"} })},
		"remove a label": {denied, update(labelled, func(b borrowed) {
			b.Status.Phase, b.Labels = "Lent", nil
		})},
		"remove a finalizer": {denied, update(labelled, func(b borrowed) {
			b.Status.Phase, b.Finalizers = "Lent", nil
		})},
		"let another home's loan go":       {denied, update(theirKept, lets)},
		"let a loan go before its end":     {denied, update(keptLent, lets)},
		"… with its end":                   {denied, update(keptLent, func(b borrowed) { lets(b); b.Status.Phase = "Ended" })},
		"remove what others wait for":      {denied, update(keptEnded, func(b borrowed) { b.Finalizers = nil })},
		"… alone":                          {denied, update(keptEnded, func(b borrowed) { b.Finalizers = []string{loan.Finalizer} })},
		"free with the finalizer":          {denied, update(keptEnded, func(b borrowed) { lets(b); b.Status.Free = true })},
		"keep what has ended":              {denied, update(ended, func(b borrowed) { b.Finalizers = []string{loan.Finalizer} })},
		"create with the finalizer":        {denied, create(changed(lost, func(b borrowed) { b.Finalizers = []string{loan.Finalizer} }))},
		"create for another home":          {denied, create(changed(lost, to(func(s status) { s.Home = other.Name })))},
		"create with itself as borrower":   {denied, create(changed(lost, to(func(s status) { s.Borrower = own.Name })))},
		"create without a borrower":        {denied, create(changed(lost, to(func(s status) { s.Borrower = "" })))},
		"create one that asks":             {denied, create(changed(lost, to(func(s status) { s.Borrower, s.Phase = "", "Asked" })))},
		"create one that ends":             {denied, create(changed(lost, to(func(s status) { s.Phase = "Ending" })))},
		"create one that is freed":         {denied, create(changed(lost, to(func(s status) { s.Free = true })))},
		"create one to be given back":      {denied, create(changed(lost, to(func(s status) { s.GiveBack = true })))},
		"create with the last epoch":       {denied, create(changed(lost, to(func(s status) { s.Epoch = 1 << 62 })))},
		"create under the name of another": {denied, create(changed(lost, func(b borrowed) { b.Spec.Pod = "web-9" }))},
		"create under one with a dot":      {denied, create(changed(lost, func(b borrowed) { b.Spec.Pod, b.Spec.Interface, b.Name = "a.b", "c", "a.b.c.net" }))},
		"create with a finalizer":          {denied, create(changed(lost, func(b borrowed) { b.Finalizers = []string{"example.com/hold"} }))},
		"create with a label":              {denied, create(changed(lost, func(b borrowed) { b.Labels = map[string]string{"a": "b"} }))},
		"create with an annotation":        {denied, create(changed(lost, func(b borrowed) { b.Annotations = map[string]string{"a": "b"} }))},
		"create with an owner":             {denied, create(changed(lost, func(b borrowed) { b.OwnerReferences = ownedBy(own) }))},
		"create with a name of the server": {denied, create(changed(lost, func(b borrowed) { b.Name, b.GenerateName = "", "lost" }))},
		"patch":                            {byRole, patch(asked, `{"status":{"phase":"Lent"}}`)},
		"patch a status":                   {byRole, patchStatus(asked, `{"status":{"phase":"Lent"}}`)},
		"apply on the server": {byRole, applied(lost, `{"apiVersion":"limpet.dev/v1alpha1","kind":"BorrowedAddress","metadata":{"name":"`+lost.Name+`"},
			"spec":{"pod":"lost","interface":"eth0","network":"net","ips":"10.0.0.5"},"status":{"home":"`+own.Name+`","borrower":"?","phase":"Lent","epoch":5}}`)},
		"delete all": {byRole, removeAll(&limpetv1alpha1.BorrowedAddress{}, client.InNamespace(ns))},
	} {
		t.Run(name, func(t *testing.T) { refused(t, thief, tc.by, tc.do) })
	}
	refused(t, thief, "may set the phase of this loan to Lent or Ended", lends(to(func(s status) { s.Free = true })))
	refused(t, thief, "may write no loan of which it is neither home nor the borrower", update(theirs, to(func(s status) { s.Phase = "Ended" })))
	env.Change(t, labelled, func() { labelled.Finalizers = nil })
	allowed(t, thief, update(keptEnded, lets)) // as home does, whose own record is all that it harms
	for _, b := range []borrowed{keptEnded, keptLent, theirKept} {
		env.Read(t, client.ObjectKeyFromObject(b), b)
		env.Change(t, b, func() { b.Finalizers = nil })
	}
	allowed(t, thief, create(lost)) // as any agent may, for its own node
	owned := lending(ns, "apps/Deployment/web/db", loan.Loan{Home: own.Name, Borrower: loan.Unknown, Phase: loan.Lent, Epoch: 5})
	allowed(t, thief, create(owned)) // its name is hashed
	env.RemoveAtEnd(t, lost)
	env.RemoveAtEnd(t, owned)
}

// nodeSteps are all writes of loans that an agent decides for, by what they are: the loan before, if there is one, and the step.
func nodeSteps(own, other string) map[string]struct {
	before *loan.Loan
	step   loan.Step
} {
	found := map[string]struct {
		before *loan.Loan
		step   loan.Step
	}{}
	plan := func(l *loan.Loan) {
		for bits := range 1 << 6 {
			is := func(bit int) bool { return bits&(1<<bit) != 0 }
			for _, r := range []loan.Record{{}, {Lent: 5}, {Lent: 4}, {Guest: 5}} {
				r.Confirmed = true
				s := loan.PlanNode(loan.NodeInput{
					Node: own, Loan: l, Live: true, Record: r, Owns: is(0), Whole: is(0) && is(5), Own: is(1), Attached: is(2), Taken: is(3), Bound: is(4),
				})
				if s.Verb == loan.Put || s.Verb == loan.Remove {
					name := fmt.Sprintf("none, %d %+v", s.Verb, s.Loan)
					if l != nil {
						name = fmt.Sprintf("%+v, %d %+v", *l, s.Verb, s.Loan)
					}
					found[name] = struct {
						before *loan.Loan
						step   loan.Step
					}{l, s}
				}
			}
		}
	}
	plan(nil)
	for _, phase := range []loan.Phase{loan.Asked, loan.Lent, loan.Ending, loan.Ended} {
		for _, home := range []string{own, other} {
			for _, borrower := range []string{"", own, other, loan.Unknown} {
				for flags := range 4 {
					if borrower == "" && flags&1 == 0 || borrower != "" && (phase == loan.Lent || phase == loan.Ending) {
						plan(&loan.Loan{Home: home, Borrower: borrower, Phase: phase, Epoch: 5, GiveBack: flags&1 != 0, Free: flags&2 != 0})
					}
				}
			}
		}
	}
	return found
}

// An agent can take each step that it ever decides for.
func TestTheTokenOfAnAgentTakesEachStepOfALoan(t *testing.T) {
	deploy(t)
	own, other, ns := env.Node(t), env.Node(t), env.Namespace(t)
	c := env.As(t, env.Token(t, agent, own.Name))
	steps := nodeSteps(own.Name, other.Name)
	if len(steps) < 20 {
		t.Errorf("%d steps: this tests little", len(steps))
	}
	for i, name := range slices.Sorted(maps.Keys(steps)) {
		t.Run(name, func(t *testing.T) {
			before, step := steps[name].before, steps[name].step
			if before == nil {
				o := lending(ns, fmt.Sprint("web-", i), step.Loan)
				allowed(t, c, create(o))
				env.RemoveAtEnd(t, o)
				return
			}
			o := lending(ns, fmt.Sprint("web-", i), *before)
			env.Create(t, o)
			if step.Verb == loan.Remove {
				allowed(t, c, remove(o))
				return
			}
			allowed(t, c, update(o, func(b borrowed) { b.Status = statusOfLoan(step.Loan) }))
		})
	}
}

// The CRD refuses a loan that contradicts itself: epochs tell one borrower from the next.
func TestLoansThatContradictThemselvesAreRefused(t *testing.T) {
	ns := env.Namespace(t)
	held := lending(ns, "web-0", loan.Loan{Home: "a", Borrower: "b", Phase: loan.Lent, Epoch: 5})
	env.Create(t, held)
	type status = *limpetv1alpha1.BorrowedAddressStatus
	next := changed(held, func(b borrowed) { b.Name, b.ResourceVersion, b.UID = "web-1.eth0.net", "", "" })
	for name, do := range map[string]request{
		"other addresses":               update(held, func(b borrowed) { b.Spec.IPs = "10.0.0.6" }),
		"another pod":                   update(held, func(b borrowed) { b.Spec.Pod = "web-1" }),
		"an earlier epoch":              update(held, to(func(s status) { s.Epoch = 4 })),
		"no borrower in the same epoch": update(held, to(func(s status) { s.Borrower = "" })),
		"one borrower after another":    update(held, to(func(s status) { s.Borrower, s.Epoch = "c", 6 })),
		"an unknown one after another":  update(held, to(func(s status) { s.Borrower, s.Epoch = loan.Unknown, 6 })),
		"an end with a borrower":        update(held, to(func(s status) { s.Phase = "Ended" })),
		"a question with a borrower":    update(held, to(func(s status) { s.Phase = "Asked" })),
		"a write that compares nothing": update(held, func(b borrowed) { b.ResourceVersion = "" }),
		"a phase that there is not":     update(held, to(func(s status) { s.Phase = "Sold" })),
		"no epoch":                      create(changed(next, to(func(s status) { s.Epoch = 0 }))), // which is none in the state of a node
		"an epoch without a next one":   create(changed(next, to(func(s status) { s.Epoch = 1<<63 - 1 }))),
	} {
		t.Run(name, func(t *testing.T) {
			if err := do(t.Context(), env.Client); !apierrors.IsInvalid(err) {
				t.Errorf("the answer is %v, want it invalid", err)
			}
		})
	}
	allowed(t, env.Client, create(changed(next, to(func(s status) { s.Epoch = 1 << 62 }))))
	allowed(t, env.Client, update(held, to(func(s status) { s.Borrower, s.Epoch = "", 6 })))
	lost := lending(ns, "web-2", loan.Loan{Home: "a", Borrower: loan.Unknown, Phase: loan.Lent, Epoch: 5})
	env.Create(t, lost)
	allowed(t, env.Client, patch(lost, `{"status":{"borrower":null,"epoch":6}}`)) // by a person who knows that no pod has it
	env.RemoveAtEnd(t, next)
}

// A tenant that may do anything in its namespace reads loans, and neither writes nor deletes one.
func TestAnOwnerOfANamespaceWritesNoLoan(t *testing.T) {
	deploy(t)
	ns := env.Namespace(t)
	mine := lending(ns, "web-0", loan.Loan{Home: "a", Phase: loan.Ended, Epoch: 5})
	mine.Finalizers = []string{loan.Finalizer}
	env.Create(t, mine, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "owner-of-" + ns}},
	})
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = "owner-of-" + ns
	owner := env.As(t, config)
	next := lending(ns, "web-1", loan.Loan{Home: "a", Phase: loan.Asked, Epoch: 5})
	for name, do := range map[string]request{
		"create": create(next),
		"apply on the server": applied(next, `{"apiVersion":"limpet.dev/v1alpha1","kind":"BorrowedAddress","metadata":{"name":"`+next.Name+`"},
			"spec":{"pod":"web-1","interface":"eth0","network":"net","ips":"10.0.0.5"},"status":{"home":"a","phase":"Asked","epoch":5}}`),
		"update":     update(mine, func(b borrowed) { b.Status.Free = true }),
		"patch":      patch(mine, `{"metadata":{"finalizers":["example.com/hold"]}}`),
		"let it go":  patch(mine, `{"metadata":{"finalizers":null}}`),
		"delete":     remove(mine),
		"delete all": removeAll(&limpetv1alpha1.BorrowedAddress{}, client.InNamespace(ns)),
	} {
		t.Run(name, func(t *testing.T) { refused(t, owner, denied, do) })
	}
	allowed(t, owner, list(&limpetv1alpha1.BorrowedAddressList{}, client.InNamespace(ns)))
	allowed(t, env.Client, create(next))                                                                       // by an administrator
	for who, o := range map[string]borrowed{"generic-garbage-collector": mine, "namespace-controller": next} { // when a namespace is deleted
		config.Impersonate.UserName = "system:serviceaccount:kube-system:" + who
		allowed(t, env.As(t, config), remove(o))
	}
	env.Change(t, mine, func() { mine.Finalizers = nil }) // as home does
}

// kubectl get borrowedaddresses shows where the addresses are.
func TestKubectlShowsLoans(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, lending(ns, "web-0", loan.Loan{Home: "a", Borrower: "b", Phase: loan.Lent, Epoch: 5}))
	c, err := discovery.NewDiscoveryClientForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		text, err := c.RESTClient().Get().AbsPath("/apis/limpet.dev/v1alpha1/namespaces/"+ns+"/borrowedaddresses").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
		if err != nil {
			return fmt.Errorf("get the table: %w", err)
		}
		var shown metav1.Table
		if err := json.Unmarshal(text, &shown); err != nil || len(shown.Rows) != 1 || len(shown.ColumnDefinitions) != 7 {
			return fmt.Errorf("%d rows of %d columns, %w", len(shown.Rows), len(shown.ColumnDefinitions), err)
		}
		got := map[string]any{}
		for i, column := range shown.ColumnDefinitions[:6] { // not the time
			got[column.Name] = shown.Rows[0].Cells[i]
		}
		want := map[string]any{"Name": "web-0.eth0.net", "POD": "web-0", "IPS": "10.0.0.5", "HOME": "a", "NODE": "b", "PHASE": "Lent"}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
}
