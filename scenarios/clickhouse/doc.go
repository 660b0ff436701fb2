// Package clickhouse holds reference reconcilers of the Altinity clickhouse-operator's StatefulSet path: as it was in
// 0.27.0 ("clickhouse/buggy"), with the two patches that its issue 1990 went through ("clickhouse/patch-a" and
// "clickhouse/patch-ab"), and as 0.27.1 shipped it ("clickhouse/v0.27.1").
//
// They make the API calls of the original one by one, in its order and with its handling of every error, and write its
// log lines. What does not touch the API is left out, and so is what it does for data, users, keepers and monitoring, and
// the forced software restart before step 2, which may scale a host to 0; recreate.yaml starts from where that leaves one.
// One pass over a ClickHouseInstallation (CHI) is:
//
//	1  GET chi, PUT chi/status        InProgress; what this GET returned is what the pass works on
//	2  GET sts                        compare its object-version label; "same" is all right as it is
//	   GET cm, GET svc                create or update where they differ
//	   GET sts                        absent: on to step 6
//	3  PUT sts                        only if it is ready; without a resourceVersion; "updated" if that works
//	4  GET sts, PUT replicas 0, DELETE sts
//	5  GET pvc                        create or update where they differ
//	6  POST sts                       and GET chi, PUT chi/status: the host counts as added
//	7  GET chi, PUT chi/status        Completed, or Aborted if a host returned an error
//
// with steps 2 to 6 for each host in turn, and polls of the set after the writes of steps 3, 4 and 6.
//
// The bug of 0.27.0 is in steps 4 to 7: when the PUT of replicas 0 fails, the DELETE is skipped and the error dropped;
// the POST then fails because the set still exists, which is dropped too; and the CHI is declared Completed. A write of
// the set's status by kube-controller-manager between the GET and the PUT is enough to get there.
//
// All reads are live, as those of the original are. A pass is never retried: its error becomes status Aborted, and
// events of StatefulSets enqueue nothing. The polls between the calls sleep in real code, which is virtual time in a run.
//
// Where a host has more than the API can tell (which claims it lost, which queries it runs), the original's answer for a
// healthy host without data loss is built in. One cluster per CHI is modelled, hence the names chi-<chi>-<shard>-<replica>.
package clickhouse
