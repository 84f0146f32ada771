//! A small, well-formed trace in every format; not every test uses all of them.
#![allow(dead_code)]

use rota_trace::Format;

pub const ROTA_CSV: &str = "\
# four jobs
id,user,job_type,arrival_s,gpus,gpu_type,share,memory_mib,nodes_max,duration_s,steps,estimate_s,usual_s,priority,weight,tickets,deadline_s,after,utilisation,fails_at_s,retries
a,ann,net,0,1,v100|p100,0.25,4096,1,60,,50,,3,2.5,7,100,,0.5,30,2
b,ben,\"net, wide\",0.5,8,,,,,,1000,,900,,,,,a:any,,,
2,,,10,1,,,,,5,,,,-4,,,,a;b:ok,,,
";

pub const ROTA_TOML: &str = "\
[[job]]
id = \"a\"
arrival_s = 0
duration_s = 60.5
gpus = 2
gpu_type = [\"v100\", \"p100\"]

[[job]]
arrival_s = 1_000
steps = 1e3
job_type = \"net\"
after = [\"a:any\"]
";

pub const GENERATE: &str = "[generate]\nmodel = \"classroom\"\nseed = 4\n";

pub const GENERATE_GAVEL: &str = "[generate]\nmodel = \"gavel-continuous\"\njobs = 20\nslo = true\nsteady_state = { v100 = 4 }\n";

pub const THROUGHPUTS_CSV: &str = "\
job_type,gpus,with_job_type,with_gpus,spread,v100
net,1,,,,10
lm,2,,,,6
lm,2,,,true,5
net,1,lm,2,,4
lm,2,net,1,,3
";

pub const THROUGHPUTS_TOML: &str = "\
[[speed]]
job_type = 'net'
steps_per_second = { v100 = 10, k80 = 2.5 }

[[speed]]
job_type = 'net'
gpus = 2
spread = true
steps_per_second.v100 = 18

[[pair]]
job_types = ['net', 'net']
gpus = [1, 1]
steps_per_second = { v100 = [6, 6] }
";

pub const THROUGHPUTS_JSON: &str = r#"{"v100": {"('net', 1)": {"null": 10.0, "('lm', 1)": [4, 3.5]},
"('lm', 1)": {"null": 6, "('net', 1)": [3.5, 4.0]}},
"v100_unconsolidated": {"('lm', 1)": {"null": 5}}}
"#;

pub const GAVEL10: &str = "\
ResNet-18 (batch size 128)\tpython3 main.py --data_dir=%s/cifar10\timage\t--num_steps\t1\t925982\t4\t1\t-1.000000\t0
A3C\tpython3 main.py --env \"Pong\"\trl\t--max-steps\t0\t100\t1\t5\t1.200000\t10.500000
";

pub const GAVEL7: &str = "\
Transformer (batch size 128)\tx\t-step\t1\t5635991\t0.0\t1
A3C\tx\t--max-steps\t0\t40093\t251674.0\t16
";

pub const GAVEL_TSV: &str = "\
job_id\tarrival_s\tmodel\tscale_factor\ttotal_steps\tduration_v100_s\tpriority\tslo_mult
0\t0.0\tA3C\t1\t1646636.2758419\t68344.35010595087\t1\tNone
1\t489.172145820603\tnone such\t8\t343170.46864225325\t1000.5\t5\t2
";

pub const PHILLY: &str = "\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,8,23608.0,6214e9

";

pub const PHILLY_JSON: &str = r#"[
  {"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "user": "ce2f4c", "submitted_time": "2017-10-07 01:11:30",
   "attempts": [{"start_time": "2017-10-07 01:12:00", "end_time": "2017-10-07 01:13:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]},
                {"start_time": "2017-10-07 01:20:00", "end_time": "2017-10-07 01:20:30", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
  {"status": "Failed", "vc": "v2", "jobid": "application_2", "user": null, "submitted_time": "2017-10-07 01:00:00",
   "attempts": [{"start_time": "2017-10-07 01:12:00", "end_time": "2017-10-07 01:12:40", "detail": [{"ip": "m1", "gpus": ["gpu0"]}, {"ip": "m2", "gpus": ["gpu3"]}]}]},
  {"status": "Killed", "vc": "v2", "jobid": "application_3", "user": "x", "submitted_time": "2017-10-07 01:30:00", "attempts": []},
  {"status": "Killed", "vc": "v2", "jobid": "application_4", "user": "x", "submitted_time": "2017-10-07 01:40:00",
   "attempts": [{"start_time": "2017-10-07 01:42:00", "end_time": "None", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]}
]
"#;

pub const HELIOS: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
411096,u1,vcA,8,64,1,COMPLETED,2020-04-01 00:10:00,2020-04-01 00:10:05,2020-04-01 00:20:05,600,5
411097,u2,vcA,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:01,2020-04-01 00:00:11,10,1
411098,u2,vcB,2,16,1,FAILED,2020-04-01 00:05:00,2020-04-01 00:05:01,2020-04-01 00:05:11,10,1
411099,u2,vcB,1,16,1,CANCELLED,2020-04-01 00:05:00,,,0,1
";

pub const ACME: &str = "\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dl1,uf794,8,64.0,960,1000,100.0,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:02:08+00:00,,,60.0,10.0,3840.0
dl2,uf794,1,8,960,1000,100.0,Evaluation,COMPLETED,2023-05-17 19:00:00+08:00,2023-05-17 11:01:08+00:00,2023-05-17 11:02:08+00:00,,,60.5,10.0,484.0
dl3,uf794,1,8,960,1000,100.0,Other,RUNNING,2023-05-17 19:00:00+08:00,2023-05-17 11:01:08+00:00,,,,,10.0,
";

pub const PAI: &str = "\
4b3f04b66a525d2df903eb16,worker,2,Terminated,494319.0,494329.0,600.0,58.59375,50.0,T4
4b3f04b66a525d2df903eb16,ps,1,Terminated,494319.0,494329.0,600.0,29.296875,,CPU
f7bf4ac5b5c11f5de1cb8b66,tensorflow,3,Failed,494000.0,494100.0,600.0,29.296875,200.0,V100
0d12,tensorflow,1,Running,494000.0,,600.0,29.296875,100.0,MISC
";

pub const OPENB: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,1000,,LS,Running,5,12537496,5
openb-pod-0001,6000,12288,1,460,V100M16|V100M32,LS,Failed,100,150,120
openb-pod-0002,6000,12288,0,0,,LS,Running,0,10,0
openb-pod-0003,6000,12288,8,1000,,BE,Pending,0,10,
";

pub const POLLUX: &str = "\
name,time,application,num_replicas,batch_size,duration
cifar10-0,107,cifar10,6,2048,900
deepspeech2-1,9.5,deepspeech2,12,640,3600.5
";

pub const SWF: &str = "\
; Version: 2.2
; UnixStartTime: 1504521041
; UnixStartTime is above
  1 0 5 100 4 -1 -1 8 200 -1 1 3 1 -1 1 -1 -1 -1
  2 10 -1 50 4 -1 -1 -1 -1 -1 0 4 1 -1 1 -1 -1 -1
  3 5 -1 -1 4 -1 -1 -1 -1 -1 5 4 1 -1 1 -1 -1 -1
";

pub const SACCT: &str = "\
JobID|User|JobName|State|Submit|Start|End|ElapsedRaw|Timelimit|AllocTRES|ReqTRES|Priority
100|ann|a \"quoted\" name|COMPLETED|2024-01-01T10:00:10|2024-01-01T10:00:20|2024-01-01T10:01:20|60|1-00:00:00|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1||4294901000
100.batch||batch|COMPLETED|2024-01-01T10:00:20|2024-01-01T10:00:20|2024-01-01T10:01:20|60||cpu=8,gres/gpu=2||
101_7|ben|b|FAILED|2024-01-01T10:00:00|2024-01-01T10:00:20|2024-01-01T10:00:50|30|UNLIMITED|cpu=1,gres/gpu:a100=1,gres/gpu:h100=2||5
102|ben|cpu only|COMPLETED|2024-01-01T10:00:00|2024-01-01T10:00:20|2024-01-01T10:00:50|30|10:00|cpu=1|cpu=1|5
103|ben|r|RUNNING|2024-01-01T10:00:00|2024-01-01T10:00:20|Unknown|30|10:00|cpu=1,gres/gpu=1||5
104|ben|c|CANCELLED by 1000|2024-01-01T10:00:00|2024-01-01T10:00:20|2024-01-01T10:00:25|5|10:00||cpu=1,gres/gpu=1|5
105|ben|c|CANCELLED by 1000|2024-01-01T10:00:00|None|2024-01-01T10:00:25|0|10:00||cpu=1,gres/gpu=1|5
";

/// Every format with its sample.
pub const ALL: [(Format, &str); 14] = [
    (Format::RotaCsv, ROTA_CSV),
    (Format::RotaToml, ROTA_TOML),
    (Format::Gavel10, GAVEL10),
    (Format::Gavel7, GAVEL7),
    (Format::GavelTsv, GAVEL_TSV),
    (Format::Philly, PHILLY),
    (Format::PhillyJson, PHILLY_JSON),
    (Format::Helios, HELIOS),
    (Format::Acme, ACME),
    (Format::AlibabaPai, PAI),
    (Format::Openb, OPENB),
    (Format::Pollux, POLLUX),
    (Format::Swf, SWF),
    (Format::Sacct, SACCT),
];
