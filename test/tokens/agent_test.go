package tokens_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const agent = "limpet-agent"

// shown is an IPReservation as the agent of a node writes it.
func shown(ns, pod string, node testenv.Node) *limpetv1alpha1.IPReservation {
	return &limpetv1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: pod + ".eth0.net." + node.Name,
			Labels: map[string]string{limpetv1alpha1.LabelNode: node.Name}, OwnerReferences: ownedBy(node),
		},
		Status: limpetv1alpha1.IPReservationStatus{
			Node: node.Name, Network: "net", Interface: "eth0", Pod: pod, IPs: "10.0.0.5", State: limpetv1alpha1.IPAttached,
		},
	}
}

// pool is a NodeIPPool as the agent of a node writes it.
func pool(node testenv.Node, network string) *limpetv1alpha1.NodeIPPool {
	return &limpetv1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name + "." + network, Labels: map[string]string{limpetv1alpha1.LabelNode: node.Name}, OwnerReferences: ownedBy(node),
		},
		Status: limpetv1alpha1.NodeIPPoolStatus{Node: node.Name, Network: network, Total: 5, Free: 5},
	}
}

func ownedBy(node testenv.Node) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
}

// changed returns a copy of an object with a change.
func changed[T client.Object](o T, edit func(T)) T {
	next := o.DeepCopyObject().(T)
	edit(next)
	return next
}

// nodeEvent is the event that the agent of a node creates about it.
func nodeEvent(node string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: node + ".1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)},
		Reason:         "R", Message: "m", Source: corev1.EventSource{Component: agent, Host: node},
	}
}

// The token of the agent on one node writes no object of another node, takes no name away,
// hides nothing, and has no other rights.
func TestAStolenTokenOfAnAgentIsRefused(t *testing.T) {
	deploy(t)
	own, other, ns := env.Node(t), env.Node(t), env.Namespace(t)
	thief := env.As(t, env.Token(t, agent, own.Name))
	mine, theirs := shown(ns, "web-0", own), shown(ns, "db-0", other)
	myPool, theirPool := pool(own, "net"), pool(other, "net")
	theirPod, theirEvent := testenv.APod("db-0").In(ns).On(other.Name).Pod, nodeEvent(other.Name)
	state := testenv.APersistentPodState("web").In(ns).Requires("rack").PersistentPodState
	env.Create(t, mine, theirs, myPool, theirPool, theirPod, theirEvent, state)
	type reservation = *limpetv1alpha1.IPReservation
	type ippool = *limpetv1alpha1.NodeIPPool
	next := shown(ns, "web-1", own)

	cases := map[string]struct {
		by string
		do request
	}{
		"create a reservation of another node":  {denied, create(shown(ns, "db-1", other))},
		"… that has the label of its own":       {denied, create(changed(shown(ns, "db-1", other), func(r reservation) { r.Labels[limpetv1alpha1.LabelNode] = own.Name }))},
		"… in its own name, with another label": {denied, create(changed(next, func(r reservation) { r.Labels[limpetv1alpha1.LabelNode] = other.Name }))},
		"… without a label":                     {denied, create(changed(next, func(r reservation) { r.Labels = nil }))},
		"… that another Node owns":              {denied, create(changed(next, func(r reservation) { r.OwnerReferences = ownedBy(other) }))},
		"… that a pod owns":                     {denied, create(changed(next, func(r reservation) { r.OwnerReferences[0].Kind = "Pod" }))},
		"… that another Node owns too":          {denied, create(changed(next, func(r reservation) { r.OwnerReferences = append(ownedBy(own), ownedBy(other)...) }))},
		"… with many owners": {denied, create(changed(next, func(r reservation) {
			for i := range 200 {
				r.OwnerReferences = append(r.OwnerReferences, ownedBy(own)[0])
				r.OwnerReferences[i].UID = types.UID(fmt.Sprint("former", i))
			}
		}))},
		"… with an owner of a long UID":        {denied, create(changed(next, func(r reservation) { r.OwnerReferences[0].UID = types.UID(strings.Repeat("u", 64<<10)) }))},
		"… under the name of another node's":   {denied, create(changed(next, func(r reservation) { r.Name = "db-1.eth0.net." + other.Name }))},
		"… under one with a dot in a part":     {denied, create(changed(next, func(r reservation) { r.Name, r.Status.Network = "web-1.eth0.net.other."+own.Name, "net.other" }))},
		"… with an empty label":                {denied, create(changed(next, func(r reservation) { r.Labels["app"] = "" }))},
		"… with an empty annotation":           {denied, create(changed(next, func(r reservation) { r.Annotations = map[string]string{"a": ""} }))},
		"… with a finalizer":                   {denied, create(changed(next, func(r reservation) { r.Finalizers = []string{"example.com/hold"} }))},
		"… with a label of another program":    {denied, create(changed(next, func(r reservation) { r.Labels["app"] = "db" }))},
		"… with an annotation":                 {denied, create(changed(next, func(r reservation) { r.Annotations = map[string]string{"a": "b"} }))},
		"update a reservation of another node": {denied, update(theirs, func(r reservation) { r.Status.IPs = "10.0.0.6" })},
		"… to its own": {denied, update(theirs, func(r reservation) {
			r.Status.Node, r.Labels[limpetv1alpha1.LabelNode], r.OwnerReferences = own.Name, own.Name, ownedBy(own)
		})},
		"… its labels alone":                       {denied, update(theirs, func(r reservation) { r.Labels = map[string]string{limpetv1alpha1.LabelNode: own.Name} })},
		"… its owner alone":                        {denied, update(theirs, func(r reservation) { r.OwnerReferences = nil })},
		"hide its own reservation from its node":   {denied, update(mine, func(r reservation) { r.Labels[limpetv1alpha1.LabelNode] = other.Name })},
		"move its own reservation to another node": {denied, update(mine, func(r reservation) { r.Status.Node = other.Name })},
		"give its own reservation another owner":   {denied, update(mine, func(r reservation) { r.OwnerReferences = ownedBy(other) })},
		"add a finalizer":                          {denied, update(mine, func(r reservation) { r.Finalizers = []string{"example.com/hold"} })},
		"add a label":                              {denied, update(mine, func(r reservation) { r.Labels["app"] = "db" })},
		"add an empty label":                       {denied, update(mine, func(r reservation) { r.Labels["app"] = "" })},
		"delete a reservation of another node":     {denied, remove(theirs)},
		"patch its own reservation":                {byRole, patch(mine, `{"status":{"ips":"10.0.0.6"}}`)},
		"patch the status of its own":              {byRole, patchStatus(mine, `{"status":{"ips":"10.0.0.6"}}`)},
		"apply another node's on the server": {byRole, applied(theirs, `{"apiVersion":"limpet.dev/v1alpha1","kind":"IPReservation","metadata":{"name":"`+theirs.Name+`"},
			"status":{"node":"`+own.Name+`","network":"net","interface":"eth0","pod":"db-0","ips":"10.0.0.5","state":"Attached"}}`)},
		"delete all reservations":             {byRole, removeAll(&limpetv1alpha1.IPReservation{}, client.InNamespace(ns))},
		"delete all reservations of its node": {byRole, removeAll(&limpetv1alpha1.IPReservation{}, client.InNamespace(ns), client.MatchingLabels{limpetv1alpha1.LabelNode: own.Name})},
		"create a pool of another node":       {denied, create(pool(other, "second"))},
		"create a pool under another's name":  {denied, create(changed(pool(own, "second"), func(p ippool) { p.Name = other.Name + ".second" }))},
		"say that another node has none free": {denied, update(theirPool, func(p ippool) { p.Status.Free = 0 })},
		"take the pool of another node":       {denied, update(theirPool, func(p ippool) { p.Status.Node, p.Labels[limpetv1alpha1.LabelNode] = own.Name, own.Name })},
		"delete the pool of another node":     {denied, remove(theirPool)},
		"delete all pools":                    {byRole, removeAll(&limpetv1alpha1.NodeIPPool{})},
		"hide its own pool":                   {denied, update(myPool, func(p ippool) { p.Labels[limpetv1alpha1.LabelNode] = other.Name })},
		"create an event about another node":  {denied, create(changed(nodeEvent(other.Name), func(e *corev1.Event) { e.Name = "another" }))},
		"create an event of another program":  {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.Source.Component = "kubelet" }))},
		"create an event about a pod":         {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.InvolvedObject.Kind, e.InvolvedObject.Namespace = "Pod", "default" }))},
		"… with a finalizer, as an event":     {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.Finalizers = []string{"example.com/hold"} }))},
		"… with a label, as an event":         {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.Labels = map[string]string{"app": "db"} }))},
		"… with annotations, as an event":     {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.Annotations = map[string]string{"a": "b"} }))},
		"… that a node owns, as an event":     {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.OwnerReferences = ownedBy(own) }))},
		"… about a related pod": {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) {
			e.Related = &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "theirs"}
		}))},
		"… with a long message":                {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.Message = strings.Repeat("x", 2000) }))},
		"… with a long field path":             {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.InvolvedObject.FieldPath = strings.Repeat("x", 2000) }))},
		"… with a long host":                   {denied, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.Source.Host = strings.Repeat("x", 2000) }))},
		"create an event in another namespace": {byRole, create(changed(nodeEvent(own.Name), func(e *corev1.Event) { e.Namespace = ns }))},
		"change an event":                      {byRole, update(theirEvent, func(e *corev1.Event) { e.Message = "forged" })},
		"create a pod":                         {byRole, create(testenv.APod("own").In("limpet-system").Pod)},
		"annotate a pod":                       {byRole, patch(theirPod, `{"metadata":{"annotations":{"a":"b"}}}`)},
		"delete a pod":                         {byRole, remove(theirPod)},
		"change a node":                        {byRole, patch(other.Node, `{"spec":{"unschedulable":true}}`)},
		"change a PersistentPodState":          {byRole, patch(state, `{"spec":{"requiredPersistentTopology":{"keys":["zone"]}}}`)},
		"write a record":                       {byRole, patchStatus(state, `{"status":{"podStates":{"web-0":{"nodeName":"`+own.Name+`"}}}}`)},
		"read secrets":                         {byRole, list(&corev1.SecretList{}, client.InNamespace("limpet-system"))},
		"read config maps":                     {byRole, list(&corev1.ConfigMapList{})},
		"get a token of the controller":        {byRole, tokenOf("limpet-controller")},
		"get a token of its own":               {byRole, tokenOf(agent)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { refused(t, thief, tc.by, tc.do) })
	}
}

// tokenOf asks for a token of a service account.
func tokenOf(account string) request {
	return func(ctx context.Context, c client.Client) error {
		sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: account}}
		return c.SubResource("token").Create(ctx, sa, &authenticationv1.TokenRequest{})
	}
}

// A token that names no node writes nothing, not even for a node that says to have none.
func TestATokenOfAnAgentWithoutANodeIsRefused(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	mine, lent := shown(ns, "web-0", node), lending(ns, "web-0", loan.Loan{Home: node.Name, Phase: loan.Ended, Epoch: 1})
	env.Create(t, mine, lent)
	thief := env.As(t, env.Token(t, agent, ""))
	const remedy = "Remedy"
	nameless := changed(shown(ns, "web-1", node), func(r *limpetv1alpha1.IPReservation) {
		r.Name, r.Status.Node, r.Labels, r.OwnerReferences = "x0123456789abcdef01234567", "", map[string]string{limpetv1alpha1.LabelNode: ""}, nil
	})
	for name, do := range map[string]request{
		"create":                    create(shown(ns, "web-1", node)),
		"create for a nameless one": create(nameless),
		"update":                    update(mine, func(r *limpetv1alpha1.IPReservation) { r.Status.IPs = "10.0.0.6" }),
		"delete":                    remove(mine),
		"create a loan":             create(lending(ns, "web-1", loan.Loan{Home: node.Name, Borrower: loan.Unknown, Phase: loan.Lent, Epoch: 1})),
		"delete a loan":             remove(lent),
	} {
		t.Run(name, func(t *testing.T) { refused(t, thief, remedy, do) })
	}
	refused(t, thief, denied, create(nodeEvent("")))
}

// The agent can do all that it does. A stolen token can do the same, for its own node: in
// any namespace, and about pods that it does not run. The controller does not follow it.
func TestTheTokenOfAnAgentServesItsNode(t *testing.T) {
	deploy(t)
	own, ns := env.Node(t), env.Namespace(t)
	c := env.As(t, env.Token(t, agent, own.Name))
	mine, hashed, bare := shown(ns, "web-0", own), shown(ns, "web-1", own), shown(ns, "web-2", own)
	hashed.Status.Network, hashed.Name = "Net.of.dots", "x0123456789abcdef01234567"
	bare.OwnerReferences = nil
	theirs := shown(ns, "db-0", own)
	theirs.Status.PodUID, theirs.Status.RetainMinutes = "of-a-pod-that-never-ran-here", 600
	myPool, myEvent := pool(own, "net"), nodeEvent(own.Name)
	steps := []struct {
		what string
		do   request
	}{
		{"show a reservation", create(mine)},
		{"show one whose name is hashed", create(hashed)},
		{"show one before it knows its Node", create(bare)},
		{"show one of a pod of a stranger", create(theirs)},
		{"show a pool", create(myPool)},
		{"report an event", create(myEvent)},
		{"list reservations", list(&limpetv1alpha1.IPReservationList{}, client.MatchingLabels{limpetv1alpha1.LabelNode: own.Name})},
		{"list pools", list(&limpetv1alpha1.NodeIPPoolList{}, client.MatchingLabels{limpetv1alpha1.LabelNode: own.Name})},
		{"list nodes", list(&corev1.NodeList{})},
		{"update a reservation", update(mine, func(r *limpetv1alpha1.IPReservation) {
			r.Status.State, r.Status.Left = limpetv1alpha1.IPReserved, "9m"
		})},
		{"name the owner as soon as it is known", update(bare, func(r *limpetv1alpha1.IPReservation) { r.OwnerReferences = ownedBy(own) })},
		{"name the owner again when the node joins again", update(mine, func(r *limpetv1alpha1.IPReservation) { r.OwnerReferences[0].UID = "again" })},
		{"update a pool", update(myPool, func(p *limpetv1alpha1.NodeIPPool) { p.Status.Free = 4 })},
		{"remove a label that a user has added", updateAfter(`{"metadata":{"labels":{"app":"x"},"annotations":{"a":"b"},"finalizers":["example.com/hold"]}}`,
			mine, func(r *limpetv1alpha1.IPReservation) { delete(r.Labels, "app"); r.Annotations, r.Finalizers = nil, nil })},
		{"delete a reservation", remove(mine)},
		{"delete a pool", remove(myPool)},
	}
	for _, step := range steps {
		t.Run(step.what, func(t *testing.T) { allowed(t, c, step.do) })
	}
	for _, o := range []client.Object{mine, hashed, bare, theirs, myPool, myEvent} {
		env.RemoveAtEnd(t, o)
	}
	var stored appsv1beta1.PersistentPodStateList
	if err := c.List(t.Context(), &stored); err == nil {
		t.Error("the agent reads PersistentPodStates, which it needs not")
	}
}

// updateAfter is an update of an object that an administrator has changed before.
func updateAfter[T client.Object](text string, o T, edit func(T)) request {
	return func(ctx context.Context, c client.Client) error {
		if err := env.Client.Patch(ctx, o.DeepCopyObject().(T), client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			return err
		}
		return update(o, edit)(ctx, c)
	}
}

// The ranges of a pool are bounded by the CRD, because each controller has all pools in memory.
func TestTheRangesOfAPoolAreBounded(t *testing.T) {
	deploy(t)
	own := env.Node(t)
	thief := env.As(t, env.Token(t, agent, own.Name))
	fat, wide := pool(own, "fat"), pool(own, "wide")
	for range 17 {
		fat.Status.Ranges = append(fat.Status.Ranges, "10.0.0.1-10.0.0.9")
	}
	wide.Status.Ranges = []string{strings.Repeat("x", 1025)}
	allowed(t, thief, create(pool(own, "first")))
	for _, p := range []*limpetv1alpha1.NodeIPPool{fat, wide} {
		if err := thief.Create(t.Context(), p); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v, want it invalid", p.Name, err)
		}
	}
	env.RemoveAtEnd(t, pool(own, "first"))
}
